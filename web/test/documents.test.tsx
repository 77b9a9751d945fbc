import { Code } from "@connectrpc/connect";
import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { describe, expect, test, vi } from "vitest";
import { each } from "../src/documents/each.js";
import { filtersOf, parametersOf, serverFilter } from "../src/documents/filters.js";
import { budgetOf, documentName, FILES_MAX } from "../src/documents/uploads.js";
import { refusal, renderPage, type Services } from "./page.js";

const HOSTILE = `<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>.pdf`;

describe("the filters", () => {
  test("of an address are bounded and become a filter of the server", () => {
    const parameters = new URLSearchParams(`q=${encodeURIComponent('a "b" \\ tag:x')}&state=ready&tag=tag_1&tag=x y&order=bad`);
    const filters = filtersOf(parameters);
    expect(serverFilter(filters)).toBe('name:"a \\"b\\" \\\\ tag:x" tag:tag_1 state=ready');
    expect(filtersOf(new URLSearchParams(`q=${"a".repeat(500)}`)).text).toHaveLength(200);
    expect(filtersOf(new URLSearchParams("state=gone")).state).toBe("");
  });

  test("survive the address", () => {
    const filters = { text: "a & b", state: "failed", tagIds: ["tag_1", "tag_2"], orderBy: "name desc" } as const;
    expect(filtersOf(new URLSearchParams(parametersOf(filters).toString()))).toEqual(filters);
    expect(parametersOf(filtersOf(new URLSearchParams())).toString()).toBe("");
  });
});

test("an action on several items runs a few at once and reports failures", async () => {
  let running = 0;
  let most = 0;
  const outcome = await each([1, 2, 3, 4, 5, 6, 7, 8, 9], async (item) => {
    most = Math.max(most, ++running);
    await Promise.resolve();
    running -= 1;
    if (item === 3) throw new Error("three");
  });
  expect(most).toBe(4);
  expect(outcome.done).toHaveLength(8);
  expect(outcome.failed).toEqual([{ item: 3, error: new Error("three") }]);
});

test("a credit budget is a positive number of credits", () => {
  expect(["1", "1000000000000"].map(budgetOf)).toEqual([1n, 1_000_000_000_000n]);
  for (const bad of ["", "0", "-1", "1.5", "1e3", "a", "1000000000001"]) expect(budgetOf(bad)).toBeUndefined();
});

test("the name of a document fits the server", () => {
  expect(documentName("  a.pdf ")).toBe("a.pdf");
  expect(documentName("")).toBe("unnamed");
  const long = documentName(`${"é".repeat(300)}.pdf`);
  expect([...long].length).toBeLessThanOrEqual(200);
  expect(long.endsWith(".pdf")).toBe(true);
});

const names = (count: number, first = 0) =>
  Array.from({ length: count }, (_, index) => ({ documentId: `doc_${first + index}`, name: `file ${first + index}.pdf`, state: v1.DocumentState.READY }));
const tag = { listTags: () => ({ tags: [{ tagId: "tag_1", name: "paid", color: "#00aa00" }] }) };

test("of a long list only the visible rows are rendered, and pages are loaded at its end", async () => {
  const tokens: string[] = [];
  const services: Services = {
    document: {
      listDocuments: ({ pageToken }) => {
        tokens.push(pageToken);
        const page = pageToken === "" ? 0 : Number(pageToken);
        return { documents: names(200, page * 200), nextPageToken: String(page + 1), totalSize: 10_000, totalSizeEstimated: true };
      },
    },
    tag,
  };
  renderPage(services);
  await screen.findByText("file 0.pdf");
  expect(screen.getAllByRole("row").length).toBeLessThan(60);
  expect(screen.getByRole("table").getAttribute("aria-rowcount")).toBe("10001");
  expect(tokens).toEqual([""]);
});

test("a hostile name is text", async () => {
  renderPage({ document: { listDocuments: () => ({ documents: [{ documentId: "doc_1", name: HOSTILE }], totalSize: 1 }) }, tag });
  expect((await screen.findByText(HOSTILE)).tagName).toBe("BDI");
  expect(document.querySelector("img, script[src]")).toBeNull();
  expect("hacked" in window).toBe(false);
});

test("a search changes the address and the filter", async () => {
  const filters: string[] = [];
  const services: Services = { document: { listDocuments: ({ filter }) => { filters.push(filter); return { documents: names(filter === "" ? 2 : 0) }; } }, tag };
  const { user } = renderPage(services);
  await user.type(await screen.findByLabelText("Search by name"), "in voice");
  expect(await screen.findByText("No document matches")).toBeTruthy();
  expect(filters.at(-1)).toBe('name:"in voice"');
  expect(window.location.search).toBe("?q=in+voice");
  await user.click(screen.getByRole("button", { name: "Show all documents" }));
  expect(await screen.findByText("file 0.pdf")).toBeTruthy();
});

test("the states of the list", async () => {
  renderPage({ document: { listDocuments: () => ({}) }, tag });
  expect(await screen.findByText("No documents yet")).toBeTruthy();
});

test("a list that the role does not permit says so", async () => {
  renderPage({ document: { listDocuments: () => { throw refusal(Code.PermissionDenied, "SCOPE_NOT_ALLOWED"); } }, tag });
  expect(await screen.findByText("You have no access to this")).toBeTruthy();
});

test("a failed list is loaded again by its button", async () => {
  let calls = 0;
  const listDocuments = () => {
    if (++calls === 1) throw refusal(Code.Internal, "INTERNAL", "store broken");
    return { documents: names(1) };
  };
  const { user } = renderPage({ document: { listDocuments }, tag });
  expect(await screen.findByText("store broken")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Try again" }));
  expect(await screen.findByText("file 0.pdf")).toBeTruthy();
});

test("selected documents are tagged and deleted, and a failure is reported", async () => {
  const updated: v1.UpdateDocumentRequest[] = [];
  const deleted: string[] = [];
  const services: Services = {
    document: {
      listDocuments: () => ({ documents: names(3), totalSize: 3 }),
      updateDocument: (request) => { updated.push(request); return {}; },
      deleteDocument: ({ documentId }) => {
        if (documentId === "doc_1") throw refusal(Code.Aborted, "VERSION_CONFLICT");
        deleted.push(documentId);
        return {};
      },
    },
    tag,
  };
  const { user } = renderPage(services);
  await user.click(await screen.findByLabelText("Select file 0.pdf"));
  // The key x selects the row of the focus.
  screen.getByText("file 1.pdf").closest("a")?.focus();
  await user.keyboard("x");
  const toolbar = within(await screen.findByRole("toolbar"));
  expect(toolbar.getByText("2 selected")).toBeTruthy();
  await user.click(toolbar.getByRole("button", { name: "Tag" }));
  await user.click(await screen.findByRole("menuitem", { name: "paid" }));
  await waitFor(() => expect(updated.map(({ document }) => document?.tagIds)).toEqual([["tag_1"], ["tag_1"]]));
  expect(updated[0]?.updateMask?.paths).toEqual(["tag_ids"]);
  await user.click(await screen.findByLabelText("Select file 0.pdf"));
  await user.click(screen.getByLabelText("Select file 1.pdf"));
  await user.click(await screen.findByRole("button", { name: "Delete" }));
  await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Delete" }));
  expect(await screen.findByText("1 of 2 documents deleted")).toBeTruthy();
  expect(deleted).toEqual(["doc_0"]);
});

test("a dropped file is uploaded with its progress, and a refusal is shown", async () => {
  const sent: FormData[] = [];
  const keys: string[] = [];
  let isAccepted = false;
  class FakeRequest {
    upload = { onprogress: undefined as ((event: { loaded: number }) => void) | undefined };
    status = 0;
    responseText = "";
    onload = () => undefined as void;
    open(): void {}
    setRequestHeader(name: string, value: string): void {
      if (name === "idempotency-key") keys.push(value);
    }
    getResponseHeader(): string | null { return null; }
    send(form: FormData): void {
      sent.push(form);
      this.upload.onprogress?.({ loaded: 1 });
      const isBad = form.get("name") === "bad.exe" && !isAccepted;
      this.status = isBad ? 422 : 200;
      this.responseText = isBad ? '{"detail": "unsupported type"}' : '{"document": {"document_id": "doc_9"}}';
      setTimeout(() => this.onload());
    }
  }
  vi.stubGlobal("XMLHttpRequest", FakeRequest);
  const services: Services = {
    document: { listDocuments: () => ({ documents: names(1) }), getDocument: () => ({ document: { documentId: "doc_9" } }) },
    organization: { getOrganization: () => ({ organization: { organizationId: "org_1", autoCreate: true } }) },
    tag,
  };
  const { user } = renderPage(services);
  await screen.findByText("file 0.pdf");
  const files = [new File(["abc"], "good.pdf"), new File(["abc"], "bad.exe")];
  fireEvent.drop(screen.getByTestId("drop-area"), { dataTransfer: { files, types: ["Files"] } });
  expect(await screen.findByText("1 of 2 uploaded, 1 failed")).toBeTruthy();
  expect(screen.getByText("unsupported type")).toBeTruthy();
  expect(screen.getByText("good.pdf").getAttribute("href")).toBe("/documents/doc_9");
  expect(sent.map((form) => form.get("name")).sort()).toEqual(["bad.exe", "good.pdf"]);
  expect(sent.map((form) => form.get("auto_create"))).toEqual([null, null]);
  // Another attempt has the key of the first one, so that a lost answer creates no second document.
  isAccepted = true;
  await user.click(screen.getByRole("button", { name: "Upload bad.exe again" }));
  expect(await screen.findByText("2 of 2 uploaded")).toBeTruthy();
  expect(sent.at(-1)?.get("name")).toBe("bad.exe");
  expect([keys.length, new Set(keys).size]).toEqual([3, 2]);
  expect(keys.slice(0, 2)).toContain(keys[2]);
  // The switch begins with the setting of the organization.
  const automatic = screen.getByRole<HTMLInputElement>("switch", { name: "Automatic creation" });
  expect(automatic.checked).toBe(true);
  const budget = screen.getByLabelText("Credit budget of each agent");
  await user.type(budget, "0");
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Upload" }).disabled).toBe(true);
  await user.clear(budget);
  await user.type(budget, "25");
  await user.upload(screen.getByLabelText("Files"), new File(["abc"], "bounded.pdf"));
  await waitFor(() => expect(sent.at(-1)?.get("name")).toBe("bounded.pdf"));
  expect(sent.at(-1)?.get("credit_budget")).toBe("25");
  await user.click(automatic);
  await user.upload(screen.getByLabelText("Files"), new File(["abc"], "plain.pdf"));
  await waitFor(() => expect(sent.at(-1)?.get("name")).toBe("plain.pdf"));
  expect([sent.at(-1)?.get("auto_create"), sent.at(-1)?.get("credit_budget")]).toEqual(["false", null]);
  vi.unstubAllGlobals();
});

test("a drop of too many files says how many were not uploaded", async () => {
  class SilentRequest {
    upload = {};
    open(): void {}
    setRequestHeader(): void {}
    send(): void {}
  }
  vi.stubGlobal("XMLHttpRequest", SilentRequest);
  renderPage({
    document: { listDocuments: () => ({ documents: names(1) }) },
    organization: { getOrganization: () => ({ organization: { organizationId: "org_1" } }) },
    tag,
  });
  await screen.findByText("file 0.pdf");
  const files = Array.from({ length: FILES_MAX + 3 }, (_, index) => new File(["abc"], `dropped ${index}.pdf`));
  fireEvent.drop(screen.getByTestId("drop-area"), { dataTransfer: { files, types: ["Files"] } });
  expect(await screen.findByText("3 files were not uploaded: at most 100 files are accepted at once. Drop them again.")).toBeTruthy();
  expect(screen.getByText("0 of 100 uploaded")).toBeTruthy();
  vi.unstubAllGlobals();
});
