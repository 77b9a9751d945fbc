import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { draftOf, metadataOf, problemOf } from "../src/collections/rule.js";
import { choose, renderPage } from "./page.js";

test("a rule is checked", () => {
  const rule = draftOf({ tagIds: ["tag_1"], metadata: { country: "MY" } });
  expect([problemOf(rule), metadataOf(rule)]).toEqual(["", { country: "MY" }]);
  expect(metadataOf({ tagIds: [], metadata: [{ key: " country ", value: " MY " }, { key: " ", value: "x" }] })).toEqual({ country: " MY " });
  expect(problemOf({ tagIds: [], metadata: [{ key: " ", value: "x" }] })).toContain("at least one");
  expect(problemOf({ tagIds: [], metadata: [{ key: "a", value: "x" }, { key: "a ", value: "y" }] })).toContain("twice");
  expect(problemOf({ tagIds: Array.from({ length: 21 }, (_, index) => `tag_${index}`), metadata: [] })).toContain("at most 20");
  expect(problemOf({ tagIds: [], metadata: [{ key: "a", value: "é".repeat(513) }] })).toContain("1 KiB");
});

test("collections are created, changed and deleted, and lead to searches and questions", async () => {
  const created: v1.CreateCollectionRequest[] = [];
  const updated: v1.UpdateCollectionRequest[] = [];
  const deleted: string[] = [];
  const { user } = renderPage({
    tag: { listTags: () => ({ tags: [{ tagId: "tag_1", name: "paid" }] }) },
    collection: {
      listCollections: () => ({ collections: [{ collectionId: "col_1", name: "Contracts", tagIds: ["tag_1"], metadata: { country: "MY" }, etag: "e1" }] }),
      createCollection: (request) => { created.push(request); return {}; },
      updateCollection: (request) => { updated.push(request); return {}; },
      deleteCollection: ({ collectionId, etag }) => { deleted.push(`${collectionId} ${etag}`); return {}; },
      listCollectionDocuments: () => ({ documents: [{ documentId: "doc_1", name: "a.pdf" }] }),
    },
  }, "/collections");
  expect(await screen.findByText("country = MY")).toBeTruthy();
  expect(screen.getByRole("link", { name: "Search in Contracts" }).getAttribute("href")).toBe("/search?collection=col_1");
  expect(screen.getByRole("link", { name: "Ask about Contracts" }).getAttribute("href")).toBe("/assistant?about=collection&collection=col_1");

  await user.click(screen.getByRole("button", { name: "Documents of Contracts" }));
  expect((await screen.findByRole("link", { name: "a.pdf" })).getAttribute("href")).toBe("/documents/doc_1");
  await user.keyboard("{Escape}");

  await user.click(screen.getByRole("button", { name: "New collection" }));
  const form = within(await screen.findByRole("dialog", { name: "New collection" }));
  await user.type(form.getByRole("textbox", { name: "Name" }), "Asia");
  expect(form.getByRole<HTMLButtonElement>("button", { name: "Save" }).disabled).toBe(true);
  await choose(user, form.getByRole("combobox", { name: "Tags" }), "paid");
  await user.click(form.getByRole("button", { name: "Add a metadata value" }));
  await user.type(form.getByRole("textbox", { name: "Metadata key 1" }), "region");
  await user.type(form.getByRole("textbox", { name: "Value 1" }), "asia");
  await user.click(form.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(created.map(({ collection }) => [collection?.name, collection?.tagIds, collection?.metadata])).toEqual([["Asia", ["tag_1"], { region: "asia" }]]));

  await user.click(await screen.findByRole("button", { name: "Edit Contracts" }));
  const edit = within(await screen.findByRole("dialog", { name: "Edit collection" }));
  await user.click(edit.getByRole("button", { name: "Remove metadata value 1" }));
  await user.click(edit.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(updated.map(({ collection, updateMask }) => [collection?.etag, collection?.metadata, updateMask?.paths])).toEqual([["e1", {}, ["name", "description", "tag_ids", "metadata"]]]));
  await user.click(await screen.findByRole("button", { name: "Edit Contracts" }));
  await user.click(within(await screen.findByRole("dialog", { name: "Edit collection" })).getByRole("button", { name: "Delete" }));
  await waitFor(() => expect(deleted).toEqual(["col_1 e1"]));
});

test("an administrator chooses the ingestion of new documents", async () => {
  const updates: v1.UpdateOrganizationRequest[] = [];
  const { user } = renderPage({
    organization: {
      getOrganization: () => ({ organization: { name: "Alpha", etag: "e1", ingestion: v1.IngestionMode.INDEX } }),
      updateOrganization: (request) => { updates.push(request); return {}; },
    },
  }, "/administration/organization");
  await choose(user, await screen.findByRole("combobox", { name: "Ingestion of new documents" }), "agentic");
  expect(screen.getByText("Agents decide about the steps, which costs more credit.")).toBeTruthy();
  await user.click(screen.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(updates.map(({ organization, updateMask }) => [organization?.ingestion, updateMask?.paths.includes("ingestion")])).toEqual([[v1.IngestionMode.AGENTIC, true]]));
});

test("a row whose cells wait is in the inbox, and leads to its stack", async () => {
  renderPage({
    document: { getDocument: () => ({ document: { documentId: "doc_1", name: "a.pdf" } }) },
    inbox: {
      listInboxItems: () => ({ items: [{ itemId: "row_1", kind: v1.InboxItemKind.CELL_REVIEW, subject: { case: "cellReview", value: { stackRowId: "row_1", stackId: "stk_1", documentId: "doc_1", waitingCells: 2, approvedCells: 1 } } }] }),
      watchInbox: async function* () { yield { change: { case: "caughtUp" as const, value: {} } }; await new Promise(() => undefined); },
    },
  }, "/inbox");
  expect((await screen.findByRole("link", { name: "a.pdf" })).getAttribute("href")).toBe("/stacks/stk_1?document=doc_1");
  expect(screen.getByText("2 cells wait, 1 approved, 0 rejected")).toBeTruthy();
  expect(await screen.findByLabelText("1 waiting")).toBeTruthy();
});
