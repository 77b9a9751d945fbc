import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { act, screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { describe, expect, test, vi } from "vitest";
import { shownProposal } from "../src/document/proposal_banner.js";
import { pdfPasswordProblem } from "../src/document/protected_notice.js";
import { matchingPages, matchingWords, nextMatch } from "../src/document/search.js";
import { nextZoom, resolutionFor } from "../src/document/zoom.js";
import { renderPage, type Services } from "./page.js";

describe("search", () => {
  test("finds pages regardless of case, width and white space", () => {
    const pages = [{ number: 1, text: "Total\n amount  TOTAL" }, { number: 2, text: "none" }, { number: 3, text: "ｔｏｔａｌ" }];
    expect(matchingPages(pages, " total ")).toEqual([{ page: 1, count: 2 }, { page: 3, count: 1 }]);
    expect(matchingPages(pages, "total amount")).toEqual([{ page: 1, count: 1 }]);
    expect(matchingPages(pages, "  ")).toEqual([]);
  });

  test("finds the words of a phrase and of a part of a word", () => {
    const words = ["The", "total", "amount", "of", "totals"].map((text) => ({ text }));
    expect([...matchingWords(words, "total amount")]).toEqual([1, 2]);
    expect([...matchingWords(words, "total")]).toEqual([1, 4]);
    expect([...matchingWords(words, "l am")]).toEqual([1, 2]);
    expect([...matchingWords([{ text: "請求書" }, { text: "فاتورة" }], "請求")]).toEqual([0]);
  });

  test("continues at the other end", () => {
    const matches = [{ page: 2, count: 1 }, { page: 5, count: 1 }];
    expect([nextMatch(matches, 2, 1), nextMatch(matches, 5, 1), nextMatch(matches, 2, -1), nextMatch([], 1, 1)]).toEqual([5, 2, 5, undefined]);
  });
});

test("the zoom has ends, and the resolution follows the width", () => {
  expect([nextZoom(1, 1), nextZoom(3, 1), nextZoom(0.5, -1)]).toEqual([1.25, 3, 0.5]);
  expect([resolutionFor(360, 1), resolutionFor(720, 1), resolutionFor(720, 2), resolutionFor(2_000, 3)]).toEqual([50, 100, 200, 200]);
});

const HOSTILE = `"><img src=x onerror=alert(1)>`;
const words = (page: number) => ({
  width: 600,
  height: 800,
  words: [
    { text: `word${page}`, boundingBox: { left: 0.1, top: 0.1, right: 0.2, bottom: 0.12 } },
    { text: HOSTILE, boundingBox: { left: 0.3, top: 0.1, right: 0.5, bottom: 0.12 } },
    { text: "nowhere" },
  ],
});

function services(images: v1.GetPageImageRequest[] = []): Services {
  return {
    document: {
      getDocument: () => ({ document: { documentId: "doc_1", name: HOSTILE, mediaType: "application/pdf", state: v1.DocumentState.READY, textGeneration: "g1", pages: 200 } }),
      getDocumentText: ({ fromPage }) => ({ pages: [{ number: fromPage, text: fromPage === 101 ? "deep Word101" : "word1" }], nextPage: fromPage === 1 ? 101 : 0 }),
      getPageWords: ({ page }) => words(page),
      getPageImage: async function* (request) {
        images.push(request);
        yield { chunk: new Uint8Array([1, 2]) };
      },
      watchDocument: async function* () {
        yield { change: { case: "caughtUp" as const, value: {} } };
        await new Promise(() => undefined);
      },
    },
    extraction: {
      listExtractions: () => ({
        extractions: [{
          extractionId: "ext_1",
          documentId: "doc_1",
          originalJson: '{"seller": "word1"}',
          citations: [{ path: "seller", page: 1, boxes: [{ left: 0.1, top: 0.1, right: 0.2, bottom: 0.12 }] }],
        }],
      }),
    },
    prompt: { listPrompts: () => ({}) },
  };
}

test("of 200 pages only the visible ones are loaded, with their text as a layer", async () => {
  const images: v1.GetPageImageRequest[] = [];
  renderPage(services(images), "/documents/doc_1");
  const layer = within(await screen.findByRole("region", { name: "Page 1" }));
  expect((await layer.findByText("word1")).tagName).toBe("text");
  expect(layer.getByText(HOSTILE).tagName).toBe("text");
  expect(layer.queryByText("nowhere")).toBeNull();
  expect(await layer.findByRole("img", { name: "Page 1" })).toBeTruthy();
  const full = images.filter(({ dpi }) => dpi !== 50);
  expect(full.length).toBeLessThan(5);
  expect(full.every(({ format }) => format === v1.ImageFormat.WEBP)).toBe(true);
  expect(document.querySelector("img[src=x]")).toBeNull();
});

test("the focus on a value highlights its boxes", async () => {
  renderPage(services(), "/documents/doc_1");
  const value = await screen.findByRole("button", { name: "seller: word1" });
  expect(screen.queryByTestId("highlight")).toBeNull();
  act(() => value.focus());
  const rect = (await screen.findByTestId("highlight")).querySelector("rect");
  expect([rect?.getAttribute("x"), rect?.getAttribute("y")]).toEqual([String(Math.fround(0.1)), String(Math.fround(0.1))]);
  act(() => value.blur());
  await waitFor(() => expect(screen.queryByTestId("highlight")).toBeNull());
});

test("a link to a field shows its citation", async () => {
  renderPage(services(), "/documents/doc_1?extraction=ext_1&field=seller");
  const rect = (await screen.findByTestId("highlight")).querySelector("rect");
  expect(rect?.getAttribute("x")).toBe(String(Math.fround(0.1)));
});

test("a search counts the matches of the whole document and marks words", async () => {
  const { user, container } = renderPage(services(), "/documents/doc_1");
  await user.type(await screen.findByLabelText("Search in the document"), "word1");
  expect(await screen.findByText("2 matches")).toBeTruthy();
  await waitFor(() => expect(container.querySelectorAll('[class*="found"]').length).toBeGreaterThan(0));
});

test("the zoom enlarges the pages", async () => {
  const { user } = renderPage(services(), "/documents/doc_1");
  const page = await screen.findByRole("region", { name: "Page 1" });
  const before = page.style.width;
  await user.click(screen.getByRole("button", { name: "Zoom in" }));
  expect(screen.getByText("125%")).toBeTruthy();
  expect(screen.getByRole("region", { name: "Page 1" }).style.width).not.toBe(before);
});

test("the panel is in the address", async () => {
  const { user } = renderPage(services(), "/documents/doc_1");
  await user.click(await screen.findByRole("tab", { name: "Text" }));
  expect(window.location.search).toBe("?panel=text");
  expect(await screen.findByText("deep Word101")).toBeTruthy();
});

test("the password of a PDF is bounded in bytes", () => {
  expect([pdfPasswordProblem("a"), pdfPasswordProblem("é".repeat(63))]).toEqual([undefined, undefined]);
  for (const password of ["", "  ", "é".repeat(64)]) expect(pdfPasswordProblem(password)).toBeDefined();
});

test("a protected PDF is uploaded again with its password, which is not stored", async () => {
  const sent: FormData[] = [];
  class FakeRequest {
    upload = {};
    status = 200;
    responseText = '{"document": {"document_id": "doc_2"}}';
    onload = () => undefined as void;
    open(): void {}
    setRequestHeader(): void {}
    getResponseHeader(): string | null { return null; }
    send(form: FormData): void {
      sent.push(form);
      setTimeout(() => this.onload());
    }
  }
  vi.stubGlobal("XMLHttpRequest", FakeRequest);
  const of = services();
  const { user } = renderPage({
    ...of,
    document: {
      ...of.document,
      getDocument: ({ documentId }) => ({
        document: documentId === "doc_1"
          ? { documentId, name: HOSTILE, mediaType: "application/pdf", state: v1.DocumentState.FAILED, stateReason: `locked ${HOSTILE}`, tagIds: ["tag_1"] }
          : { documentId, name: "read.txt", mediaType: "text/plain", state: v1.DocumentState.READY, textGeneration: "g1" },
      }),
      downloadDocument: async function* () {
        yield { part: { case: "document" as const, value: {} } };
        for (const text of ["abc", "def"]) yield { part: { case: "chunk" as const, value: new TextEncoder().encode(text) } };
      },
    },
    organization: { getOrganization: () => ({ organization: { organizationId: "org_1" } }) },
  }, "/documents/doc_1");
  expect(await screen.findByText(`locked ${HOSTILE}`)).toBeTruthy();
  expect(document.querySelector("img[src=x]")).toBeNull();
  await user.type(screen.getByLabelText(/^Password of the PDF/, { selector: "input" }), "open sesame");
  await user.click(screen.getByRole("button", { name: "Upload with the password" }));
  await waitFor(() => expect(window.location.pathname).toBe("/documents/doc_2"));
  expect(sent.map((form) => [form.get("name"), form.get("password"), form.get("tag_ids")])).toEqual([[HOSTILE, "open sesame", '["tag_1"]']]);
  expect((sent[0]?.get("file") as Blob).size).toBe(6);
  expect(JSON.stringify([{ ...sessionStorage }, { ...localStorage }])).not.toContain("open sesame");
  vi.unstubAllGlobals();
});

test("a banner shows the open proposal, or the failure of the newest run", () => {
  const { PROPOSED, FAILED, REJECTED, SKIPPED } = v1.ProposalState;
  const of = (...states: v1.ProposalState[]) => shownProposal(states.map((state, index) => create(v1.ProposalSchema, { proposalId: `prp_${index}`, state })))?.proposalId;
  expect([of(FAILED, PROPOSED), of(FAILED, REJECTED)]).toEqual(["prp_1", "prp_0"]);
  // A failure before a decision is history, and the state of the document says that it has no text.
  expect([of(), of(REJECTED, FAILED), of(SKIPPED)]).toEqual([undefined, undefined, undefined]);
});

test("the reason of a failed run is text, and its log is linked", async () => {
  renderPage({
    ...services(),
    proposal: { listProposals: () => ({ proposals: [{ proposalId: "prp_1", state: v1.ProposalState.FAILED, documentId: "doc_1", reason: HOSTILE, threadId: "thr_9" }] }) },
  }, "/documents/doc_1");
  const banner = within(await screen.findByRole("region", { name: "Proposal" }));
  expect(banner.getByText(HOSTILE)).toBeTruthy();
  expect(banner.getByRole("link").getAttribute("href")).toBe("/documents/doc_1?panel=agent&thread=thr_9");
  expect(banner.queryByRole("button")).toBeNull();
  expect(document.querySelector("img[src=x]")).toBeNull();
});

test("a proposal appears while the document is open, with its extraction and the log of its run", async () => {
  const proposal = { proposalId: "prp_1", state: v1.ProposalState.PROPOSED, documentId: "doc_1", documentType: "invoice", extractionId: "ext_1", schemaRevid: "sch_1.1", promptRevid: "prm_1.1", threadId: "thr_9", etag: "e1" };
  let isFinished = false;
  let finish = () => undefined as void;
  const finished = new Promise<void>((resolve) => { finish = resolve; });
  const filters: string[] = [];
  renderPage({
    ...services(),
    proposal: { listProposals: ({ filter }) => { filters.push(filter); return isFinished ? { proposals: [proposal] } : {}; } },
    inbox: {
      listInboxItems: () => ({}),
      watchInbox: async function* (): AsyncGenerator<MessageInitShape<typeof v1.WatchInboxResponseSchema>> {
        yield { change: { case: "caughtUp" as const, value: {} } };
        await finished;
        yield { change: { case: "item" as const, value: { itemId: "prp_1", kind: v1.InboxItemKind.PROPOSAL, subject: { case: "proposal" as const, value: proposal } } } };
        await new Promise(() => undefined);
      },
    },
  }, "/documents/doc_1");
  await waitFor(() => expect(filters).toEqual(["document:doc_1"]));
  expect(screen.queryByRole("region", { name: "Proposal" })).toBeNull();
  isFinished = true;
  finish();
  const banner = within(await screen.findByRole("region", { name: "Proposal" }));
  expect(banner.getByText(/an agent created an extraction/)).toBeTruthy();
  const target = (name: string) => banner.getByRole("link", { name }).getAttribute("href");
  expect(["a schema", "a prompt", "Show the log of the run"].map(target)).toEqual(["/schemas/sch_1", "/prompts?prompt=prm_1", "/documents/doc_1?panel=agent&thread=thr_9"]);
  expect(banner.getByRole("link", { name: HOSTILE }).getAttribute("href")).toBe("/documents/doc_1?panel=extraction&extraction=ext_1");
  expect(document.querySelector("img[src=x]")).toBeNull();
});
