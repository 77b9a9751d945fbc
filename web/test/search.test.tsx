import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { linkedHighlight } from "../src/document/box_link.js";
import { isLong, partsOf, passageLink, withoutEmptyCells, type Passage } from "../src/search/passages.js";
import { searchOf, searchParametersOf } from "../src/search/search_parameters.js";
import { choose, renderPage, type Services } from "./page.js";

const HOSTILE = `"><img src=x onerror="window.hacked=1">`;
const box = (page: number, left: number) => ({ page, left, top: 0.1, right: left + 0.1, bottom: 0.2 });
const PASSAGE: Passage = { key: "doc_1/0", documentId: "doc_1", documentName: "a.pdf", page: 2, sectionTitles: [], text: "", matches: [], boxes: [], ranks: [] };

test("the text of a passage is divided at its matches, which are counted in characters", () => {
  expect(partsOf("😀 total of 5", [{ start: 2, end: 7 }, { start: 11, end: 12 }], false)).toEqual([
    { text: "😀 ", isMatch: false }, { text: "total", isMatch: true }, { text: " of ", isMatch: false }, { text: "5", isMatch: true },
  ]);
  // Matches that overlap, are empty, or are outside of the text are ignored.
  const bad = [{ start: 0, end: 3 }, { start: 2, end: 4 }, { start: 5, end: 5 }, { start: 4, end: 99 }];
  expect(partsOf("abcdef", bad, false)).toEqual([{ text: "abc", isMatch: true }, { text: "def", isMatch: false }]);
  expect(partsOf("", [], false)).toEqual([]);
});

test("empty cells of a table leave no lines", () => {
  expect(withoutEmptyCells(" |  | Total: | 957.00\nTerms: | 30 days |  | \n | BIC: | ")).toBe(" | Total: | 957.00\nTerms: | 30 days\nBIC: | ");
  expect(withoutEmptyCells("a | b")).toBe("a | b");
});

test("a long passage is shortened around its first match", () => {
  const text = `${"a ".repeat(500)}needle${" b".repeat(500)}`;
  const [start, end] = [1_000, 1_006];
  const parts = partsOf(text, [{ start, end }], false);
  expect(parts.map(({ isMatch }) => isMatch)).toEqual([false, false, true, false, false]);
  expect(parts.reduce((sum, part) => sum + part.text.length, 0)).toBe(604);
  expect(partsOf(text, [{ start, end }], true).map((part) => part.text).join("")).toBe(text);
  expect([isLong(text), isLong("short")]).toEqual([true, false]);
});

test("a passage leads to its matching words, else to its boxes, else to its page", () => {
  const target = (passage: Partial<Passage>) => {
    const link = new URL(passageLink({ ...PASSAGE, ...passage }), "http://a");
    return [link.searchParams.get("page"), linkedHighlight(link.searchParams)?.boxes.map(({ left }) => left)];
  };
  const matches = [{ start: 0, end: 1, box: undefined }, { start: 2, end: 3, box: box(3, 0.5) }, { start: 4, end: 5, box: box(4, 0.6) }];
  expect(target({ matches, boxes: [box(2, 0.1)] })).toEqual(["3", [0.5]]);
  expect(target({ boxes: [box(3, 0.1), box(4, 0.2)] })).toEqual(["3", [0.1]]);
  expect(target({})).toEqual(["2", undefined]);
});

test("the address of a search is checked", () => {
  const search = { query: "total & tax", tagIds: ["tag_1", "tag_2"], collectionId: "col_1" };
  expect(searchOf(searchParametersOf(search))).toEqual(search);
  expect(searchOf(new URLSearchParams("q=%20&tag=a%22b&collection=%2F"))).toEqual({ query: "", tagIds: [], collectionId: "" });
  expect([...searchOf(new URLSearchParams({ q: "é".repeat(5_000) })).query]).toHaveLength(4_000);
});

function services(requests: v1.SearchRequest[]): Services {
  const area = (page: number, left: number) => ({ page, boundingBox: { left, top: 0.1, right: left + 0.25, bottom: 0.2 } });
  return {
    retrieval: {
      search: (request) => {
        requests.push(request);
        if (request.query === "nothing") return { lexical: { used: true }, dense: { gaps: [{ description: "the organization has no embedding model" }] } };
        return {
          passages: [{
            documentId: "doc_1",
            documentName: HOSTILE,
            number: 4,
            text: `The total of ${HOSTILE}`,
            sectionTitles: ["Terms", HOSTILE],
            page: 3,
            lexical: { rank: 1, score: 9 },
            dense: { rank: 12, score: 0.5 },
            highlights: [{ start: 4, end: 9, area: area(3, 0.5) }],
            areas: [area(3, 0.25)],
          }, { documentId: "doc_2", documentName: "b.txt", text: "total", page: 1 }],
          lexical: { used: true },
          dense: { used: true, gaps: [{ reason: v1.SearchGapReason.MEMORY, passages: 5n, description: `5 passages do not fit ${HOSTILE}` }] },
        };
      },
    },
    tag: { listTags: () => ({ tags: [{ tagId: "tag_1", name: "paid" }] }) },
  };
}

test("a search shows passages with their matches and gaps, and leads to the boxes", async () => {
  const requests: v1.SearchRequest[] = [];
  const { user } = renderPage(services(requests), "/search");
  expect(await screen.findByText("Find passages in all documents")).toBeTruthy();
  expect(requests).toEqual([]);
  await user.type(screen.getByLabelText("Words or a question"), " total {Enter}");
  const list = within(await screen.findByRole("list", { name: "Passages" }));
  expect(list.getByText("total", { selector: "mark" })).toBeTruthy();
  expect(list.getByText(`Terms › ${HOSTILE}`)).toBeTruthy();
  expect([list.getByText("words 1"), list.getByText("meaning 12")]).toHaveLength(2);
  expect(list.getAllByRole("link").map((link) => link.getAttribute("href"))).toEqual(["/documents/doc_1?page=3&box=0.5%2C0.1%2C0.75%2C0.2", "/documents/doc_2?page=1"]);
  expect(screen.getByText(`Meaning: 5 passages do not fit ${HOSTILE}.`)).toBeTruthy();
  expect(document.querySelector("img[src=x]")).toBeNull();
  expect(window.location.search).toBe("?q=total");

  await choose(user, screen.getByRole("combobox", { name: "Tags" }), "paid");
  await waitFor(() => expect(requests.map(({ query, passageFilter, limit }) => [query, passageFilter?.tagIds, limit])).toEqual([["total", [], 20], ["total", ["tag_1"], 20]]));
  expect(window.location.search).toBe("?q=total&tag=tag_1");
});

test("a question is answered with checked quotes that lead to their words, above the passages", async () => {
  const requests: v1.AskRequest[] = [];
  const all = services([]);
  const { user } = renderPage({
    ...all,
    collection: { listCollections: () => ({ collections: [{ collectionId: "col_1", name: "Contracts" }] }), getCollection: () => ({ collection: { collectionId: "col_1", name: "Contracts" } }) },
    retrieval: {
      ...all.retrieval,
      ask: (request) => {
        requests.push(request);
        if (request.question === "unknown") return { passages: 0 };
        return {
          answer: `The total is 5 [1]. ${HOSTILE}`,
          citations: [{ number: 1, documentId: "doc_1", documentName: HOSTILE, page: 3, sectionTitles: [HOSTILE], quote: "total of 5", areas: [{ page: 3, boundingBox: box(3, 0.25) }] }],
          removedCitations: 2,
          passages: 8,
          model: HOSTILE,
          usage: { modelCalls: 1, inputTokens: 10n, outputTokens: 5n, credits: 3n },
        };
      },
    },
  }, "/search?q=total&collection=col_1");
  await screen.findByRole("list", { name: "Passages" });
  expect(requests).toEqual([]);
  await user.click(screen.getByRole("button", { name: "Ask" }));
  const answer = within(await screen.findByRole("region", { name: "Answer" }));
  expect(answer.getByText(`The total is 5 [1]. ${HOSTILE}`)).toBeTruthy();
  const link = answer.getByRole("link").getAttribute("href") ?? "";
  expect(linkedHighlight(new URL(link, "http://a").searchParams)).toMatchObject({ page: 3, quote: "total of 5", boxes: [{ left: 0.25 }] });
  expect(answer.getByText("2 quotes of the model did not occur in the passages and were removed.")).toBeTruthy();
  expect(requests.map(({ question, passageFilter }) => [question, passageFilter?.collectionIds])).toEqual([["total", ["col_1"]]]);
  expect(document.querySelector("img[src=x]")).toBeNull();
  // Another query is another question: its answer replaces the first one on request.
  const input = screen.getByLabelText("Words or a question");
  await user.clear(input);
  await user.type(input, "unknown");
  await user.click(screen.getByRole("button", { name: "Ask" }));
  expect(await screen.findByText("No passage was found, so that no model was called.")).toBeTruthy();
  expect(window.location.search).toBe("?q=unknown&collection=col_1");
});

test("a search without a result says why it may be incomplete", async () => {
  renderPage(services([]), "/search?q=nothing");
  expect(await screen.findByText("Nothing found")).toBeTruthy();
  expect(screen.getByText("Meaning: the organization has no embedding model.")).toBeTruthy();
});

test("missing links are text, with the documents that refer to them on demand", async () => {
  const read: string[] = [];
  const { user } = renderPage({
    link: {
      listMissingLinks: ({ pageToken }) => pageToken === ""
        ? { links: [{ target: `javascript:alert(1) ${HOSTILE}`, documentIds: ["doc_1", "doc_2"], hasMoreDocuments: true }], nextPageToken: "p2" }
        : { links: [{ target: "annex.pdf", documentIds: ["doc_1"] }] },
    },
    document: { getDocument: ({ documentId }) => { read.push(documentId); return { document: { documentId, name: HOSTILE } }; } },
  }, "/links");
  expect(await screen.findByText(`javascript:alert(1) ${HOSTILE}`)).toBeTruthy();
  expect(read).toEqual([]);
  await user.click(screen.getByText("2 or more documents"));
  await waitFor(() => expect(screen.getAllByRole("link", { name: HOSTILE }).map((link) => link.getAttribute("href"))).toEqual(["/documents/doc_1", "/documents/doc_2"]));
  expect([...document.links].filter(({ protocol }) => protocol === "javascript:")).toEqual([]);
  await user.click(screen.getByRole("button", { name: "Load more" }));
  expect(await screen.findByText("annex.pdf")).toBeTruthy();
  expect(document.querySelector("img[src=x]")).toBeNull();
});
