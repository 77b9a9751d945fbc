import { Code } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { entryFilter, entryFiltersOf, fileProblem, formatOfFile, provenanceOf, tagsProblem, textOfFile } from "../src/dictionary/entries.js";
import { choose, refusal, renderPage, SESSION, type Implementation } from "./page.js";

const HOSTILE = `"><img src=x onerror="window.hacked=1">`;
const { PERSON, INFERRED } = v1.DictionaryProvenance;
const ENTRY = { dictionaryEntryId: "dic_1", term: "MY", expansion: "Malaysia", disambiguation: HOSTILE, tags: [HOSTILE], sourceDocumentIds: ["doc_1"], provenance: INFERRED, confidence: 0.7, etag: "e1" };

test("the filter of the dictionary is quoted, and an address that a person typed is checked", () => {
  expect(entryFilter({ text: ' M"Y ', tag: "south east", provenance: "inferred" })).toBe('term:"M\\"Y" tag:"south east" provenance:inferred');
  expect(entryFilter({ text: " ", tag: "", provenance: "" })).toBe("");
  expect(entryFiltersOf(new URLSearchParams("provenance=robot&tag=%20a%20"))).toEqual({ tag: "a", provenance: "" });
  expect(entryFiltersOf(new URLSearchParams("provenance=agent"))).toEqual({ tag: "", provenance: "agent" });
});

test("tags and files have bounds", () => {
  expect(tagsProblem(["a", "é".repeat(50)])).toBeUndefined();
  for (const bad of [["a;b"], ["x".repeat(51)], Array.from({ length: 21 }, (_, index) => String(index))]) expect(tagsProblem(bad)).toBeDefined();
  expect([formatOfFile("a.CSV"), formatOfFile("a.jsonl"), formatOfFile("csv")]).toEqual([v1.DictionaryFormat.CSV, v1.DictionaryFormat.JSON_LINES, v1.DictionaryFormat.JSON_LINES]);
  expect([fileProblem({ size: 1024 * 1024 }), fileProblem({ size: 1024 * 1024 + 1 }) === undefined]).toEqual([undefined, false]);
  expect([textOfFile(new Uint8Array([0xef, 0xbb, 0xbf, 0x61])), textOfFile(new Uint8Array([0xe9]))]).toEqual(["a", undefined]);
  expect([provenanceOf(PERSON).label, provenanceOf(99 as v1.DictionaryProvenance).label]).toEqual(["Person", "Unknown"]);
});

function dictionary(calls: object[], filters: string[] = []): Implementation<typeof v1.DictionaryService> {
  return {
    listDictionaryEntries: ({ filter }) => {
      filters.push(filter);
      return { dictionaryEntries: [ENTRY] };
    },
    createDictionaryEntry: (request) => {
      if (request.dictionaryEntry?.term === "taken") throw refusal(Code.AlreadyExists, "NAME_TAKEN", "the organization has an entry for the term");
      calls.push(request);
      return { dictionaryEntry: { dictionaryEntryId: "dic_2" } };
    },
    updateDictionaryEntry: (request) => { calls.push(request); return {}; },
    deleteDictionaryEntry: (request) => { calls.push(request); return {}; },
    importDictionary: (request) => {
      calls.push(request);
      return { createdCount: 1, failedCount: 1, rows: [{ row: 1, term: "a", dictionaryEntryId: "dic_3", created: true }, { row: 2, term: HOSTILE, errorReason: "INVALID_FIELD", errorMessage: "expansion is missing" }] };
    },
    exportDictionary: async function* (request) {
      calls.push(request);
      yield { chunk: new TextEncoder().encode("term,expansion\n") };
    },
  };
}
const document = { getDocument: () => ({ document: { documentId: "doc_1", name: HOSTILE } }) };

test("an entry is created, and a taken term is explained", async () => {
  const calls: v1.CreateDictionaryEntryRequest[] = [];
  const { user } = renderPage({ dictionary: dictionary(calls), document }, "/dictionary");
  expect(await screen.findByText("Inferred, 70%")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "New entry" }));
  const form = within(await screen.findByRole("dialog"));
  const save = form.getByRole<HTMLButtonElement>("button", { name: "Save" });
  await user.type(form.getByLabelText(/^Term/), "taken");
  expect(save.disabled).toBe(true);
  await user.type(form.getByLabelText(/^Meaning/), " the meaning ");
  await user.type(form.getByLabelText("Tags", { selector: "input" }), "emea{Enter}");
  await user.click(save);
  expect(await form.findByRole("alert")).toBeTruthy();
  await user.clear(form.getByLabelText(/^Term/));
  await user.type(form.getByLabelText(/^Term/), "EU");
  await user.click(save);
  await waitFor(() => expect(calls.map(({ dictionaryEntry }) => [dictionaryEntry?.term, dictionaryEntry?.expansion, dictionaryEntry?.tags])).toEqual([["EU", "the meaning", ["emea"]]]));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});

test("a saved entry is confirmed by the person, and is deleted with its version", async () => {
  const calls: object[] = [];
  const { user } = renderPage({ dictionary: dictionary(calls), document }, "/dictionary");
  await user.click(await screen.findByRole("button", { name: "Edit MY" }));
  const form = within(await screen.findByRole("dialog"));
  expect((await form.findByText(HOSTILE, { selector: "bdi" })).closest("a")?.getAttribute("href")).toBe("/documents/doc_1");
  await user.click(form.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(calls).toMatchObject([{ dictionaryEntry: { dictionaryEntryId: "dic_1", etag: "e1", provenance: PERSON }, updateMask: { paths: ["term", "expansion", "disambiguation", "tags", "provenance"] } }]));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await user.click(screen.getByRole("button", { name: "Edit MY" }));
  await user.click(await screen.findByRole("button", { name: "Delete" }));
  await waitFor(() => expect(calls[1]).toMatchObject({ dictionaryEntryId: "dic_1", etag: "e1" }));
});

test("the list is filtered by its address", async () => {
  const filters: string[] = [];
  const { user } = renderPage({ dictionary: dictionary([], filters), document }, "/dictionary?tag=emea");
  await screen.findByText("Malaysia");
  await choose(user, screen.getByRole("combobox", { name: "Origin" }), "Agent");
  await waitFor(() => expect(filters.at(-1)).toBe('tag:"emea" provenance:agent'));
  expect(window.location.search).toBe("?tag=emea&provenance=agent");
  expect(filters[0]).toBe('tag:"emea"');
});

test("a file is imported with the result of its rows, and a file that is no text is refused", async () => {
  const calls: v1.ImportDictionaryRequest[] = [];
  const { user } = renderPage({ dictionary: dictionary(calls), document }, "/dictionary");
  await screen.findByText("Malaysia");
  const input = screen.getByLabelText<HTMLInputElement>("File with entries");
  await user.upload(input, new File([new Uint8Array([0xff, 0xfe])], "a.csv"));
  expect(await screen.findByText("The file is not a text in UTF-8.")).toBeTruthy();
  await user.keyboard("{Escape}");
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  await user.upload(input, new File(["term,expansion\na,b\n"], "a.csv"));
  expect(await screen.findByText("1 entries created, 0 existed, 1 rows not written.")).toBeTruthy();
  expect(within(screen.getByRole("table", { name: "Rows that were not written" })).getByText(HOSTILE)).toBeTruthy();
  expect(calls.map(({ format, content }) => [format, content])).toEqual([[v1.DictionaryFormat.CSV, "term,expansion\na,b\n"]]);
  expect(window.document.querySelector("img[src=x]")).toBeNull();
});

test("the shown entries are exported, and a viewer changes nothing", async () => {
  const calls: v1.ExportDictionaryRequest[] = [];
  const { user } = renderPage({ dictionary: dictionary(calls), document }, "/dictionary?provenance=person", { ...SESSION, organizationId: "org_2" });
  await screen.findByText("Malaysia");
  for (const name of ["New entry", "Import", "Edit MY"]) expect(screen.queryByRole("button", { name })).toBeNull();
  await user.click(screen.getByRole("button", { name: "Export" }));
  await user.click(await screen.findByRole("menuitem", { name: "CSV" }));
  await waitFor(() => expect(calls).toMatchObject([{ filter: "provenance:person", format: v1.DictionaryFormat.CSV }]));
});
