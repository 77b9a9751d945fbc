import { create } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { expect, test } from "vitest";
import { auditFilter, periodStart } from "../src/audit/audit_view.js";
import { failureReasons, progressOf } from "../src/batches/progress.js";
import { cellOf, columnsOf, evidencePath, extractionIdOf, fieldsOf, FIELDS_MAX, SHOWN_FIRST } from "../src/batches/grid.js";
import { ordered, rowName, shownRows } from "../src/usage/usage_view.js";
import { refusal, renderPage } from "./page.js";

test("the filter of the audit log accepts known kinds and ids only", () => {
  expect(auditFilter(new URLSearchParams("kind=call_denied&subject=create_tag&user=usr_1"))).toBe("kind=call_denied subject=create_tag user=usr_1");
  expect(auditFilter(new URLSearchParams("kind=x OR y&user=a b&thread="))).toBe("");
});

test("the progress of a job has bounds, and its failures have reasons", () => {
  expect([progressOf({ doneItems: 1, failedItems: 1, totalItems: 4 }), progressOf({ doneItems: 9, failedItems: 9, totalItems: 4 }), progressOf({ doneItems: 0, failedItems: 0, totalItems: 0 })]).toEqual([0.5, 1, 0]);
  const items = ["a", "", "b", "a", "c", "d"].map((message) => create(v1.JobItemSchema, message === "" ? {} : { error: { message } }));
  expect(failureReasons({ items })).toEqual(["a", "b", "c"]);
});

test("days are in the order of time, other groups in that of the server", () => {
  const rows = ["2026-02-02", "2026-02-01"].map((day) => create(v1.UsageRowSchema, { day }));
  expect(ordered(rows, v1.UsageGroup.DAY).map(rowName)).toEqual(["2026-02-01", "2026-02-02"]);
  expect(ordered(rows, v1.UsageGroup.MODEL).map(rowName)).toEqual(["2026-02-02", "2026-02-01"]);
});

test("a chart shows the newest days, or the most expensive groups", () => {
  const days = Array.from({ length: 201 }, (_, index) => create(v1.UsageRowSchema, { day: `2026-${String(index).padStart(3, "0")}` }));
  expect(shownRows(days, v1.UsageGroup.DAY).at(0)?.day).toBe("2026-001");
  const documents = Array.from({ length: 201 }, (_, index) => create(v1.UsageRowSchema, { documentId: `doc_${index}` }));
  expect([shownRows(documents, v1.UsageGroup.DOCUMENT).length, shownRows(documents, v1.UsageGroup.DOCUMENT).map(rowName)[0]]).toEqual([200, "doc_0"]);
});

test("the grid of results has bounded columns and cells, and any JSON is a result", () => {
  expect(fieldsOf([{ b: 1, a: 2 }, undefined, [1], "x", null, { c: 3, a: 4 }])).toEqual(["b", "a", "c"]);
  const fields = fieldsOf([Object.fromEntries(Array.from({ length: 140 }, (_, index) => [`f${index}`, 1]))]);
  expect(fields).toHaveLength(FIELDS_MAX);
  expect(columnsOf(fields, undefined)).toEqual(fields.slice(0, SHOWN_FIRST));
  expect(columnsOf(fields, ["f30", "missing", "f2"])).toEqual(["f2", "f30"]);
  expect(columnsOf(fields, [])).toEqual([]);
  expect([cellOf({ a: { x: 1 } }, "a"), cellOf({ a: null }, "a"), cellOf({ a: false }, "a"), cellOf({}, "toString"), cellOf(undefined, "a")]).toEqual(['{"x":1}', "", "false", "", ""]);
  expect([...cellOf({ a: "é".repeat(500) }, "a")]).toHaveLength(201);
  expect(evidencePath("doc_1", '{"extraction_id":"ext_1"}', "a.b")).toBe("/documents/doc_1?extraction=ext_1&field=%22a.b%22");
  expect(evidencePath("doc_1", '{"extraction_id":"a&b=c"}')).toBe("/documents/doc_1?extraction=a%26b%3Dc");
  expect(['{"extraction_id":"ext_1"}', '{"extraction_id":7}', "", "[]", "null"].map(extractionIdOf)).toEqual(["ext_1", "", "", "", ""]);
});

test("a tag is created, and a taken name is explained", async () => {
  const created: string[] = [];
  const { user } = renderPage({
    tag: {
      listTags: () => ({ tags: created.map((name, index) => ({ tagId: `tag_${index}`, name })) }),
      createTag: ({ tag }) => {
        if (tag?.name === "taken") throw refusal(Code.AlreadyExists, "NAME_TAKEN", "another tag has this name");
        created.push(tag?.name ?? "");
        return { tag: { tagId: "tag_1", name: tag?.name ?? "" } };
      },
    },
  }, "/tags");
  await user.click(await screen.findByRole("button", { name: "New tag" }));
  const name = await screen.findByLabelText(/^Name/);
  await user.type(name, "taken");
  await user.click(screen.getByRole("button", { name: "Save" }));
  expect(await screen.findByText("another tag has this name")).toBeTruthy();
  await user.clear(name);
  await user.type(name, "paid");
  await user.click(screen.getByRole("button", { name: "Save" }));
  expect(await screen.findByRole("cell", { name: "paid" })).toBeTruthy();
  expect(created).toEqual(["paid"]);
});

test("a period of the audit log ends now, and other text is none", () => {
  const now = new Date("2026-03-08T12:00:00Z");
  expect(periodStart("7", now)?.toISOString()).toBe("2026-03-01T12:00:00.000Z");
  expect([periodStart(null, now), periodStart("", now), periodStart("<b>", now), periodStart("1e9", now)]).toEqual([undefined, undefined, undefined, undefined]);
});

test("the audit log is filtered by its address", async () => {
  const filters: string[] = [];
  const starts: (v1.ListAuditEntriesRequest["startTime"])[] = [];
  renderPage({
    audit: {
      listAuditEntries: ({ filter, startTime }) => {
        filters.push(filter);
        starts.push(startTime);
        return { entries: [{ entryId: "1", kind: v1.AuditKind.CALL_DENIED, subject: "create_tag", userId: "usr_1", rule: "<b>no</b>", outcome: "denied" }] };
      },
    },
  }, "/audit?kind=call_denied&days=30");
  expect(await screen.findByText("rule “<b>no</b>”")).toBeTruthy();
  expect(filters).toEqual(["kind=call_denied"]);
  expect(Date.now() / 1_000 - Number(starts[0]?.seconds)).toBeCloseTo(30 * 86_400, -2);
});

test("the usage shows the balance and the groups", async () => {
  const groups: v1.UsageGroup[] = [];
  const { user } = renderPage({
    usage: {
      getBalance: () => ({ available: 1_000n, settled: 50n }),
      getUsage: ({ groupBy }) => {
        groups.push(groupBy[0] ?? v1.UsageGroup.UNSPECIFIED);
        return { rows: [{ model: "m1", credits: 40n, calls: 2n }], total: { credits: 40n } };
      },
    },
  }, "/usage");
  expect(await screen.findByText("50")).toBeTruthy();
  await user.click(screen.getByRole("radio", { name: "Model" }));
  await waitFor(() => expect(groups).toEqual([v1.UsageGroup.DAY, v1.UsageGroup.MODEL]));
});

test("a batch is followed while it runs, and paused", async () => {
  const actions: string[] = [];
  const job = { jobId: "job_1", kind: "batch", state: v1.JobState.RUNNING, doneItems: 3, totalItems: 10 };
  const { user } = renderPage({
    job: {
      listJobs: () => ({ jobs: [job] }),
      getJob: () => ({ job }),
      listJobItems: () => ({ items: [
        { number: 1, subject: "doc_1", state: v1.JobItemState.FAILED, error: { message: "no text" } },
        { number: 2, subject: "doc_2", state: v1.JobItemState.DONE, resultJson: '{"extraction_id":"ext_2"}' },
        { number: 3, subject: "doc_3", state: v1.JobItemState.DONE, resultJson: '{"extraction_id":"gone"}' },
      ] }),
      watchJob: async function* () {
        yield { job: { ...job, doneItems: 4 } };
        await new Promise(() => undefined);
      },
      pauseJob: ({ jobId }) => { actions.push(jobId); return {}; },
    },
    document: {
      getDocument: ({ documentId }) => {
        if (documentId === "doc_3") throw refusal(Code.NotFound, "NOT_FOUND");
        return { document: { documentId, name: `<img src=x>${documentId}.pdf` } };
      },
    },
    extraction: {
      getExtraction: ({ extractionId }) => {
        if (extractionId === "gone") throw refusal(Code.NotFound, "NOT_FOUND");
        return { extraction: { extractionId, originalJson: '{"total": 5}', editedJson: '{"total": "<b>6</b>"}' } };
      },
    },
  }, "/batches");
  expect(await screen.findByText("3 of 10")).toBeTruthy();
  await user.click((await screen.findAllByRole("button")).find((button) => button.closest("td") !== null) as HTMLElement);
  expect(await screen.findByText("4 of 10")).toBeTruthy();
  expect(await screen.findByText("no text")).toBeTruthy();
  expect(window.location.search).toBe("?job=job_1");
  const results = within(screen.getByRole("table", { name: "Results" }));
  expect(results.getAllByRole("columnheader").map(({ textContent }) => textContent)).toEqual(["Number", "Document", "State", "total"]);
  expect(results.getByText("<b>6</b>")).toBeTruthy();
  expect(results.getAllByRole("row")).toHaveLength(4);
  expect(results.getAllByRole("link").map((link) => [link.textContent, link.getAttribute("href")])).toEqual([
    ["<img src=x>doc_1.pdf", "/documents/doc_1"],
    ["<img src=x>doc_2.pdf", "/documents/doc_2?extraction=ext_2"],
    ["<b>6</b>", "/documents/doc_2?extraction=ext_2&field=total"],
    ["doc_3", "/documents/doc_3?extraction=gone"],
  ]);
  expect(document.querySelector("img")).toBeNull();
  await user.click(screen.getByRole("button", { name: "Pause" }));
  await waitFor(() => expect(actions).toEqual(["job_1"]));
});

test("views are opened by keys and by the palette", async () => {
  const { user } = renderPage({ document: { listDocuments: () => ({}) }, tag: { listTags: () => ({}) }, audit: { listAuditEntries: () => ({}) } });
  await screen.findByText("No documents yet");
  await user.keyboard("gt");
  await waitFor(() => expect(window.location.pathname).toBe("/tags"));
  await user.keyboard("{Control>}k{/Control}");
  await user.type(await screen.findByRole("combobox", { name: "Command" }), "audit{Enter}");
  await waitFor(() => expect(window.location.pathname).toBe("/audit"));
});

test("the palette opens while the visitor writes, and its input accepts a question mark", async () => {
  const { user } = renderPage({ document: { listDocuments: () => ({}) }, tag: { listTags: () => ({}) } });
  await user.click(await screen.findByRole("searchbox", { name: "Search by name" }));
  await user.keyboard("?");
  expect(screen.queryByRole("combobox", { name: "Command" })).toBeNull();
  await user.keyboard("{Control>}k{/Control}");
  const input = await screen.findByRole<HTMLInputElement>("combobox", { name: "Command" });
  await user.type(input, "what?");
  expect(input.value).toBe("what?");
  expect(screen.getByText("No command contains this text.")).toBeTruthy();
});

test("the results of a batch are exported", async () => {
  const requests: v1.DownloadExtractionsRequest[] = [];
  const saved: string[] = [];
  HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };
  const { user } = renderPage({
    job: {
      listJobs: () => ({ jobs: [] }),
      getJob: () => ({ job: { jobId: "job_1", state: v1.JobState.COMPLETED, totalItems: 1, doneItems: 1 } }),
      listJobItems: () => ({ items: [] }),
    },
    extraction: { downloadExtractions: async function* (request) { requests.push(request); yield { chunk: new Uint8Array([1]) }; } },
  }, "/batches?job=job_1");
  await user.click(await screen.findByRole("button", { name: "Export" }));
  await user.click(await screen.findByRole("menuitem", { name: "CSV" }));
  await waitFor(() => expect(saved).toEqual(["job_1.csv"]));
  expect(requests.map(({ jobIds, documentIds, format }) => [jobIds, documentIds, format])).toEqual([[["job_1"], [], v1.ExportFormat.CSV]]);
});

test("the columns of many fields are chosen", async () => {
  const originalJson = JSON.stringify(Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`field ${index}`, `value ${index}`])));
  const { user } = renderPage({
    job: {
      listJobs: () => ({ jobs: [] }),
      getJob: () => ({ job: { jobId: "job_1", state: v1.JobState.COMPLETED, totalItems: 1, doneItems: 1 } }),
      listJobItems: () => ({ items: [{ number: 1, subject: "doc_1", state: v1.JobItemState.DONE, resultJson: '{"extraction_id": "ext_1"}' }] }),
    },
    document: { getDocument: ({ documentId }) => ({ document: { documentId, name: "a.pdf" } }) },
    extraction: { getExtraction: ({ extractionId }) => ({ extraction: { extractionId, originalJson } }) },
  }, "/batches?job=job_1");
  const results = within(await screen.findByRole("table", { name: "Results" }));
  expect(results.getAllByRole("columnheader")).toHaveLength(15);
  expect(results.queryByRole("columnheader", { name: "field 19" })).toBeNull();
  await user.click(screen.getByLabelText("Columns", { selector: "input" }));
  await user.click(await screen.findByRole("option", { name: "field 19", hidden: true }));
  expect(await results.findByText("value 19")).toBeTruthy();
  expect(results.getAllByRole("columnheader")).toHaveLength(16);
});
