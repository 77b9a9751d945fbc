import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { fireEvent, screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { describe, expect, test } from "vitest";
import { citationOf, evidenceOf } from "../src/extraction/evidence.js";
import { columnsOf, elementPath, fieldsOf, leaves, memberPath, schemaOf, type Field } from "../src/extraction/fields.js";
import { valueOf } from "../src/extraction/value.js";
import { refusal, renderPage, SESSION, type Services } from "./page.js";

const SCHEMA = {
  type: "object",
  required: ["seller", "total"],
  properties: {
    seller: { type: "string", description: "The company that sells." },
    total: { type: "number", minimum: 0 },
    due: { type: ["string", "null"], format: "date" },
    kind: { enum: ["invoice", "letter"] },
    items: { type: "array", items: { type: "object", properties: { name: { type: "string" }, price: { type: "number" } } } },
  },
};
const FORMAT = JSON.stringify({ type: "json_schema", json_schema: { name: "invoice", schema: SCHEMA, strict: true } });
const DATA = { seller: "ACME", total: 12.5, due: null, items: [{ name: "pen", price: 2 }, { name: "ink", price: 10.5 }], extra: true };
const field = (name: string): Field => {
  const found = fieldsOf(DATA, schemaOf(FORMAT)).find(({ path }) => path === name);
  if (found === undefined) throw new Error(name);
  return found;
};

describe("fields", () => {
  test("follow the order of the schema, and the data adds further ones", () => {
    const fields = fieldsOf(DATA, schemaOf(FORMAT));
    expect(fields.map(({ path, kind, isRequired }) => [path, kind, isRequired])).toEqual([
      ["seller", "value", true],
      ["total", "value", true],
      ["due", "value", false],
      ["kind", "value", false],
      ["items", "array", false],
      ["extra", "value", false],
    ]);
    expect(leaves(fields).map(({ path }) => path)).toContain("items[1].price");
    expect(columnsOf(field("items"))).toEqual(["name", "price"]);
  });

  test("have the paths of the server, also with unusual names", () => {
    expect(elementPath(memberPath("a", "b"), 0)).toBe("a.b[0]");
    expect(memberPath("a", 'b.c"\\')).toBe('a."b.c\\"\\\\"');
    expect(memberPath("", "")).toBe('""');
  });

  test("of a hostile schema or data do not fail", () => {
    for (const format of ["", "null", "[]", '{"json_schema":{"schema":{"properties":[],"required":{},"enum":1,"type":7}}}']) {
      expect(fieldsOf(DATA, schemaOf(format)).length).toBe(5);
    }
    expect(fieldsOf(undefined, undefined)).toEqual([]);
    const polluted = fieldsOf(JSON.parse('{"__proto__": {"a": 1}, "constructor": "x"}'), undefined);
    expect(polluted.map(({ path }) => path)).toEqual(["__proto__", "constructor"]);
  });
});

describe("an edited value", () => {
  test.each([
    ["seller", "x", "x"],
    ["total", "3.5", 3.5],
    ["due", "", null],
    ["due", "2026-02-28", "2026-02-28"],
    ["kind", "letter", "letter"],
  ])("%s accepts %j", (name, text, value) => expect(valueOf(field(name), text)).toEqual({ value }));

  test.each([["total", "1,5"], ["total", "-1"], ["total", "1e999"], ["due", "2026-02-30"], ["kind", "memo"], ["seller", "x".repeat(97 * 1024)]])(
    "%s refuses %s",
    (name, text) => expect(valueOf(field(name), text)).toHaveProperty("problem"),
  );
});

const EXTRACTION = create(v1.ExtractionSchema, {
  extractionId: "ext_1",
  documentId: "doc_1",
  schemaRevid: "sch_1.1",
  etag: "e1",
  originalJson: JSON.stringify(DATA),
  state: v1.ExtractionState.COMPLETED,
  citations: [
    { path: "seller", page: 2, quote: "ACME", boxes: [{ left: 0.1, top: 0.2, right: 0.3, bottom: 0.25 }] },
    { path: "total", page: 1, quote: "12.50" },
  ],
  confidences: [{ path: "total", confidence: 0.4 }],
});

test("the citation of a changed value does not apply to it", () => {
  const edited = create(v1.ExtractionSchema, { ...EXTRACTION, editedJson: JSON.stringify({ ...DATA, total: 13 }) });
  const evidence = evidenceOf(edited, leaves(fieldsOf({ ...DATA, total: 13 }, undefined)));
  expect(evidence.get("seller")?.citation?.page).toBe(2);
  expect(evidence.get("total")).toEqual({ citation: undefined, confidence: undefined, review: undefined });
  expect(evidenceOf(EXTRACTION, leaves(fieldsOf(DATA, undefined))).get("total")?.confidence).toBe(0.4);
  const of = (path: string) => citationOf(new Map([["items[0].name", { citation: EXTRACTION.citations[0], confidence: undefined, review: undefined }], ["total", { citation: undefined, confidence: undefined, review: undefined }]]), path)?.page;
  expect([of("items"), of("items[0]"), of("items[0].name"), of("item"), of("total"), of("")]).toEqual([2, 2, 2, undefined, undefined, undefined]);
});

function services(extraction: Services["extraction"] = {}): Services {
  return {
    document: {
      getDocument: () => ({ document: { documentId: "doc_1", name: "a.txt", mediaType: "text/plain", state: v1.DocumentState.READY, textGeneration: "g1", pages: 1 } }),
      getDocumentText: () => ({ pages: [{ number: 1, text: "ACME" }] }),
      watchDocument: async function* () {
        yield { change: { case: "caughtUp" as const, value: {} } };
        await new Promise(() => undefined);
      },
    },
    extraction: { listExtractions: () => ({ extractions: [EXTRACTION] }), ...extraction },
    schema: { getSchemaRevision: () => ({ schemaRevision: { responseFormatJson: FORMAT } }) },
    prompt: { listPrompts: () => ({}) },
  };
}

test("a prompt is searched on the server, and its run keeps the chosen one", async () => {
  const filters: string[] = [];
  const runs: string[] = [];
  const base = services({ runExtraction: ({ promptRevid }) => { runs.push(promptRevid); return { extraction: EXTRACTION }; } });
  const { user } = renderPage({
    ...base,
    prompt: {
      listPrompts: ({ filter }) => {
        filters.push(filter);
        return filter === 'name:"hundred"' ? { prompts: [{ promptId: "prm_150", name: "Prompt one hundred and fifty" }] } : {};
      },
    },
  }, "/documents/doc_1");
  const input = await screen.findByLabelText("Prompt", { selector: "input" });
  await user.clear(input);
  await user.type(input, "hundred");
  await user.click(await screen.findByRole("option", { name: "Prompt one hundred and fifty", hidden: true }));
  await waitFor(() => expect((input as HTMLInputElement).value).toBe("Prompt one hundred and fifty"));
  expect(filters).toContain('name:"hundred"');
  await user.click(screen.getByRole("button", { name: "Extract" }));
  await waitFor(() => expect(runs).toEqual(["prm_150"]));
});

test("a link shows an extraction that is older than the listed ones, but none of another document", async () => {
  const older = { ...EXTRACTION, extractionId: "ext_0", originalJson: JSON.stringify({ ...DATA, seller: "Old company" }) };
  const getExtraction = () => ({ extraction: older });
  const { unmount } = renderPage(services({ getExtraction }), "/documents/doc_1?extraction=ext_0");
  expect((await screen.findAllByText("Old company")).length).toBeGreaterThan(0);
  unmount();
  renderPage(services({ getExtraction: () => ({ extraction: { ...older, documentId: "doc_2" } }) }), "/documents/doc_1?extraction=ext_0");
  expect(await screen.findByRole("button", { name: "Edit total" })).toBeTruthy();
  expect(screen.queryAllByText("Old company")).toEqual([]);
});

test("a value is edited in place, with the checks of its schema", async () => {
  const updates: v1.UpdateExtractionFieldRequest[] = [];
  const { user } = renderPage(services({
    updateExtractionField: (request) => {
      updates.push(request);
      return { extraction: { ...EXTRACTION, editedJson: JSON.stringify({ ...DATA, total: 99 }), etag: "e2" } };
    },
  }), "/documents/doc_1");
  await user.click(await screen.findByRole("button", { name: "Edit total" }));
  const input = screen.getByLabelText("Value of total");
  await user.clear(input);
  await user.type(input, "abc{Enter}");
  expect(await screen.findByText(/Enter a number/)).toBeTruthy();
  expect(updates).toHaveLength(0);
  await user.clear(input);
  await user.type(input, "99{Enter}");
  expect(await screen.findByRole("button", { name: "total: 99" })).toBeTruthy();
  expect(updates.map(({ path, valueJson, etag }) => [path, valueJson, etag])).toEqual([["total", "99", "e1"]]);
});

test("the key that ends the composition of CJK text saves nothing", async () => {
  const updates: string[] = [];
  const { user } = renderPage(services({
    updateExtractionField: ({ valueJson }) => {
      updates.push(valueJson);
      return { extraction: { ...EXTRACTION, editedJson: JSON.stringify({ ...DATA, seller: "請求書" }), etag: "e2" } };
    },
  }), "/documents/doc_1");
  await user.click(await screen.findByRole("button", { name: "Edit seller" }));
  const input = screen.getByLabelText("Value of seller");
  fireEvent.change(input, { target: { value: "請求書" } });
  for (const key of ["Enter", "Escape"]) fireEvent.keyDown(input, { key, isComposing: true });
  expect(screen.getByLabelText("Value of seller")).toBe(input);
  expect(updates).toEqual([]);
  fireEvent.keyDown(input, { key: "Enter" });
  await waitFor(() => expect(updates).toEqual(['"請求書"']));
});

test("a value is approved by a key, and a conflict offers to reload", async () => {
  let lists = 0;
  const seen: [string, v1.FieldDecision][] = [];
  const { user } = renderPage(services({
    listExtractions: () => {
      lists += 1;
      return { extractions: [EXTRACTION] };
    },
    reviewExtractionField: ({ path, decision }) => {
      seen.push([path, decision]);
      if (path === "seller") throw refusal(Code.Aborted, "VERSION_CONFLICT");
      return { extraction: { ...EXTRACTION, reviews: [create(v1.FieldReviewSchema, { path, decision, userId: "usr_1" })] } };
    },
  }), "/documents/doc_1");
  (await screen.findByRole("button", { name: "total: 12.5" })).focus();
  await user.keyboard("a");
  await waitFor(() => expect(screen.getByRole("button", { name: "Approve total" }).getAttribute("aria-pressed")).toBe("true"));
  await user.click(screen.getByRole("button", { name: "Reject seller" }));
  expect(await screen.findByText("This was changed meanwhile")).toBeTruthy();
  const before = lists;
  await user.click(screen.getByRole("button", { name: "Reload" }));
  await waitFor(() => expect(lists).toBeGreaterThan(before));
  expect(seen).toEqual([["total", v1.FieldDecision.APPROVED], ["seller", v1.FieldDecision.REJECTED]]);
});

test("arrays of objects are tables, and the history of a value is shown", async () => {
  const { user } = renderPage(services({
    listFieldHistory: ({ path }) => ({ changes: [{ path, kind: v1.FieldChangeKind.EDITED, userId: "usr_2", beforeJson: '"<b>x</b>"', afterJson: "3" }] }),
  }), "/documents/doc_1");
  const table = within(await screen.findByRole("table", { name: "items" }));
  expect(table.getAllByRole("row")).toHaveLength(3);
  expect(table.getByRole("button", { name: "price: 10.5" })).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "History of seller" }));
  expect(await screen.findByText('"<b>x</b>" → 3')).toBeTruthy();
});

test("a change of an agent appears while it writes", async () => {
  const live = services();
  const watch = async function* () {
    yield { change: { case: "extraction" as const, value: { ...EXTRACTION, state: v1.ExtractionState.IN_PROGRESS, originalJson: '{"seller": "<script>alert(1)</script>"}' } } };
    await new Promise(() => undefined);
  };
  renderPage({ ...live, document: { ...live.document, watchDocument: watch } }, "/documents/doc_1");
  expect(await screen.findByText("The agent writes")).toBeTruthy();
  expect(screen.getByText("<script>alert(1)</script>")).toBeTruthy();
  expect(document.querySelector("script")).toBeNull();
});

test("a viewer sees no actions", async () => {
  const viewer = { ...SESSION, organizationId: "org_2" };
  renderPage(services(), "/documents/doc_1", viewer);
  await screen.findByRole("button", { name: "total: 12.5" });
  expect(screen.queryByRole("button", { name: "Edit total" })).toBeNull();
  expect(screen.queryByRole("button", { name: "Extract" })).toBeNull();
});

test.each([["CSV", v1.ExportFormat.CSV, "a.txt.zip"], ["XLSX", v1.ExportFormat.XLSX, "a.txt.xlsx"]])(
  "an export as %s is saved as a file",
  async (label, expected, name) => {
    const formats: v1.ExportFormat[] = [];
    const saved: string[] = [];
    HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };
    const { user } = renderPage(services({
      downloadExtractions: async function* ({ format }) {
        formats.push(format);
        yield { chunk: new Uint8Array(format === v1.ExportFormat.CSV ? [0x50, 0x4b] : [1]) };
      },
    }), "/documents/doc_1");
    await user.click(await screen.findByRole("button", { name: "Export" }));
    await user.click(await screen.findByRole("menuitem", { name: label }));
    await waitFor(() => expect(saved).toEqual([name]));
    expect(formats).toEqual([expected]);
  },
);
