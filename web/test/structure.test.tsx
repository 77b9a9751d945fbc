import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { act, screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { BOXES_MAX, boxLink, linkedHighlight } from "../src/document/box_link.js";
import { headingBoxes, outlineOf, pagesLabel, tableLabel } from "../src/document/outline.js";
import { divided, joined, partsOf, reasonText, rowsOf, splitProblem } from "../src/document/split.js";
import { refusal, renderPage, SESSION, type Services } from "./page.js";

const HOSTILE = `"><img src=x onerror="window.hacked=1">`;
const box = (left: number) => ({ left, top: 0.1, right: left + 0.1, bottom: 0.2 });
const { START, DOCUMENT_NUMBER, BOOKMARK } = v1.SplitReason;

test("a link to boxes restores them, and an address that a person typed is harmless", () => {
  const link = boxLink("doc_1", 3, [box(0.1), { left: Math.fround(0.3), top: 0, right: 1, bottom: 1 }]);
  expect(link).toBe("/documents/doc_1?page=3&box=0.1%2C0.1%2C0.2%2C0.2&box=0.3%2C0%2C1%2C1");
  expect(linkedHighlight(new URL(link, "http://a").searchParams)).toEqual({ page: 3, boxes: [{ left: 0.1, top: 0.1, right: 0.2, bottom: 0.2 }, { left: 0.3, top: 0, right: 1, bottom: 1 }] });
  expect(linkedHighlight(new URL(boxLink("d", 1, Array.from({ length: 100 }, () => box(0.1))), "http://a").searchParams)?.boxes).toHaveLength(BOXES_MAX);
  for (const bad of ["", "page=1", "page=x&box=0,0,1,1", "page=0&box=0,0,1,1", "page=1&box=0.5,0,0.1,1", "page=1&box=0,0,1,2", "page=1&box=0,0,1", "page=1&box=a", "page=1&box=-1,0,1,1"]) {
    expect(linkedHighlight(new URLSearchParams(bad))).toBeUndefined();
  }
});

test("sections have the depth of their parents and their tables", () => {
  const sections = [
    { sectionId: "s0", level: 0, firstPage: 1, lastPage: 1 },
    { sectionId: "s1", level: 1, title: "Terms", firstPage: 1, lastPage: 3 },
    { sectionId: "s2", parentSectionId: "s1", level: 3, title: "", firstPage: 2, lastPage: 2 },
    { sectionId: "s3", parentSectionId: "unknown", level: 2, title: "Lost", firstPage: 4, lastPage: 4 },
  ].map((section) => create(v1.DocumentSectionSchema, section));
  const table = create(v1.DocumentTableSchema, { sectionId: "s2", page: 2, rows: [{ cells: ["a", "b"] }] });
  const outline = outlineOf(sections, [table]);
  expect(outline.map(({ depth, label, tables }) => [depth, label, tables.length])).toEqual([[0, "Before the first heading", 0], [0, "Terms", 0], [1, "Untitled section", 1], [0, "Lost", 0]]);
  expect(outlineOf(sections.slice(0, 1), [])[0]?.label).toBe("Whole document");
  expect([pagesLabel({ firstPage: 1, lastPage: 3 }), pagesLabel({ firstPage: 2, lastPage: 2 }), tableLabel(table)]).toEqual(["p. 1–3", "p. 2", "Table, 1 × 2, p. 2"]);
});

test("a heading is found by its words, and a bookmark with another text by its first word", () => {
  const words = ["2", "Terms", "of", "use", "apply"].map((text, index) => ({ text, boundingBox: create(v1.BoundingBoxSchema, box(index / 10)) }));
  const lefts = (first: number, title: string) => headingBoxes(words, first, title).map(({ left }) => Math.round(left * 10));
  expect(lefts(1, "terms of  use")).toEqual([1, 2, 3]);
  expect(lefts(1, "Terms of u")).toEqual([1, 2, 3]);
  expect(lefts(1, "Conditions")).toEqual([1]);
  expect([lefts(9, "Terms"), lefts(0, "")]).toEqual([[], [0]]);
  expect(headingBoxes([{ text: "Terms" }], 0, "Terms")).toEqual([]);
});

test("proposed parts are joined, divided and left out", () => {
  const parts = [
    { firstPage: 1, lastPage: 2, name: "a", reasons: [START], label: "" },
    { firstPage: 3, lastPage: 5, name: "b", reasons: [DOCUMENT_NUMBER, BOOKMARK, 99 as v1.SplitReason], label: HOSTILE },
  ].map((part) => create(v1.ProposedPartSchema, part));
  const rows = rowsOf(parts);
  expect(rows.map(reasonText)).toEqual(["first page of the file", `another document number · bookmark · ${HOSTILE}`]);
  expect(partsOf(divided(rows, 4))).toEqual([{ firstPage: 1, lastPage: 2, name: "a" }, { firstPage: 3, lastPage: 3, name: "b" }, { firstPage: 4, lastPage: 5, name: "" }]);
  for (const page of [0, 1, 3, 6]) expect(divided(rows, page)).toEqual(rows);
  expect(partsOf(joined(rows, 0))).toEqual([{ firstPage: 1, lastPage: 5, name: "a" }]);
  expect(joined(rows, 1)).toEqual(rows);
  expect([splitProblem(rows), splitProblem(joined(rows, 0)), splitProblem(rows.map((row) => ({ ...row, name: "é".repeat(201) })))]).toEqual([undefined, "A split makes 2 to 200 documents.", "A name has at most 200 characters."]);
  expect(splitProblem(rows.map((row, index) => ({ ...row, isIncluded: index === 0 })))).toBeDefined();
});

/** A PDF with an outline and two detected documents. */
function services(splits: v1.SplitDocumentRequest[] = [], document = {}): Services {
  return {
    document: {
      getDocument: () => ({ document: { documentId: "doc_1", name: "a.pdf", mediaType: "application/pdf", state: v1.DocumentState.READY, textGeneration: "g1", pages: 5, ...document } }),
      getDocumentText: () => ({}),
      getPageWords: () => ({ width: 100, height: 100, words: ["Terms", HOSTILE].map((text) => ({ text, boundingBox: box(0.5) })) }),
      getPageImage: async function* () { yield { chunk: new Uint8Array([1]) }; },
      watchDocument: async function* () {
        yield { change: { case: "caughtUp" as const, value: {} } };
        await new Promise(() => undefined);
      },
      getDocumentStructure: ({ fromPage }) => fromPage === 1
        ? { sections: [{ sectionId: "s1", level: 1, title: "Terms", firstPage: 1, lastPage: 2 }], tables: [{ page: 1, sectionId: "s1", rows: [{ cells: ["x"] }], boundingBox: box(0.7) }], nextPage: 3 }
        : { sections: [{ sectionId: "s2", parentSectionId: "s1", level: 2, title: HOSTILE, firstPage: 3, lastPage: 3 }], nextPage: 0 },
      getSection: ({ sectionId }) => sectionId === "s2" ? { pages: [{ number: 3, text: HOSTILE }], restId: "rest" } : { pages: [{ number: 3, text: "the rest" }] },
      proposeSplit: () => ({ parts: [{ firstPage: 1, lastPage: 2, name: "one", reasons: [START] }, { firstPage: 3, lastPage: 5, name: "two", reasons: [DOCUMENT_NUMBER], label: "a-17" }] }),
      splitDocument: (request) => {
        splits.push(request);
        if (splits.length === 1) throw refusal(Code.Internal, "INTERNAL", "the node died");
        return { documents: request.parts.map(({ name }, index) => ({ documentId: `doc_${index + 2}`, name })) };
      },
    },
    extraction: { listExtractions: () => ({}) },
    prompt: { listPrompts: () => ({}) },
  };
}

test("the outline jumps to headings and tables, and shows the text of a section in parts", async () => {
  const { user } = renderPage(services(), "/documents/doc_1?panel=outline");
  await user.click(await screen.findByRole("button", { name: "Go to Terms" }));
  const left = async () => (await screen.findByTestId("highlight")).querySelector("rect")?.getAttribute("x");
  expect(await left()).toBe(String(Math.fround(0.5)));
  await user.click(screen.getByRole("button", { name: "Table, 1 × 1, p. 1" }));
  await waitFor(async () => expect(await left()).toBe(String(Math.fround(0.7))));
  act(() => (document.activeElement as HTMLElement).blur());
  await waitFor(() => expect(screen.queryByTestId("highlight")).toBeNull());

  await user.click(screen.getByRole("button", { name: `Text of ${HOSTILE}` }));
  const section = within(await screen.findByRole("region", { name: `Section ${HOSTILE}` }));
  expect(section.getByText(HOSTILE)).toBeTruthy();
  await user.click(section.getByRole("button", { name: "Load more" }));
  expect(await section.findByText("the rest")).toBeTruthy();
  expect(document.querySelector("img[src=x]")).toBeNull();
});

test("an outline of a document without page images reads sections only", async () => {
  renderPage(services([], { mediaType: "text/plain" }), "/documents/doc_1?panel=outline");
  expect(await screen.findByRole("button", { name: "Text of Terms" })).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Go to Terms" })).toBeNull();
});

test("a link to boxes highlights them", async () => {
  renderPage(services(), boxLink("doc_1", 1, [box(0.25)]));
  expect((await screen.findByTestId("highlight")).querySelector("rect")?.getAttribute("x")).toBe("0.25");
});

test("a split is reviewed and made, and a repetition has the same id", async () => {
  const splits: v1.SplitDocumentRequest[] = [];
  const { user } = renderPage(services(splits), "/documents/doc_1?panel=split");
  expect(await screen.findByText("The file seems to contain 2 documents.")).toBeTruthy();
  expect(screen.getByText("another document number · a-17")).toBeTruthy();
  await user.type(screen.getByLabelText("Page that starts a part"), "5");
  await user.click(screen.getByRole("button", { name: "Start a part at the page" }));
  await user.type(screen.getByLabelText("Name of p. 5"), "three");
  await user.click(screen.getByRole("checkbox", { name: "Make a document of p. 1–2" }));
  await user.click(screen.getByRole("button", { name: "Make 2 documents" }));
  await user.click(await screen.findByRole("button", { name: "Try again" }));
  expect(await screen.findByText("2 documents were made")).toBeTruthy();
  expect(splits.map(({ parts }) => parts.map(({ firstPage, lastPage, name }) => [firstPage, lastPage, name]))).toEqual(Array(2).fill([[3, 4, "two"], [5, 5, "three"]]));
  expect(splits[0]?.requestId).toBe(splits[1]?.requestId);
  expect(screen.getByRole("link", { name: "three" }).getAttribute("href")).toBe("/documents/doc_3");
});

test("a viewer reads a proposal, and a file without pages has none", async () => {
  renderPage(services(), "/documents/doc_1?panel=split", { ...SESSION, organizationId: "org_2" });
  expect(await screen.findByText("The file seems to contain 2 documents.")).toBeTruthy();
  expect(screen.queryByRole("button", { name: /^Make/ })).toBeNull();
  expect(screen.getByLabelText<HTMLInputElement>("Name of p. 1–2").readOnly).toBe(true);
});
