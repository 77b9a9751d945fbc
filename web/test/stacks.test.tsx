import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { screen, waitFor, within } from "@testing-library/react";
import { v1 } from "folio-client";
import { describe, expect, test, vi } from "vitest";
import { linkedHighlight } from "../src/document/box_link.js";
import { cellText, evidenceLink, stateOf, textOf, valueOf } from "../src/stacks/cells.js";
import { columnsOf, draftOf, moved, newColumn, problemOf } from "../src/stacks/columns.js";
import { movedPosition } from "../src/stacks/grid.js";
import { fills } from "../src/stacks/queries.js";
import { countText, rowFilterOf, serverFilter, withChanges } from "../src/stacks/rows.js";
import { documentsOf } from "../src/stacks/stacks_view.js";
import { fileName } from "../src/stacks/table_export.js";
import { columnsFor, COUNT_ROWS, filterProblem, headingOf, isComplete, keyText, requestOf, resultText, withFunction } from "../src/stacks/totals.js";
import { choose, refusal, renderPage, type Services } from "./page.js";

const HOSTILE = `"><img src=x onerror="window.hacked=1">`;
const { FILLED, EDITED, APPROVED, REJECTED, EMPTY } = v1.StackCellState;
const { TEXT, NUMBER, INTEGER, BOOLEAN, DATE, ENUM } = v1.StackColumnType;

type CellInit = MessageInitShape<typeof v1.StackCellSchema>;
const cell = (init: CellInit) => create(v1.StackCellSchema, init);
const row = (number: number, cells: CellInit[] = [], etag = "e1") =>
  create(v1.StackRowSchema, { stackRowId: `row_${number}`, stackId: "stk_1", documentId: `doc_${number}`, documentName: `file ${number}.pdf`, etag, cells });

describe("the value of a cell", () => {
  test("keeps the digits of a number, and is a text for people", () => {
    expect(["12345678901234567890.10", '"a \\"b\\""', "null", ""].map((json) => textOf(json))).toEqual(["12345678901234567890.10", 'a "b"', "", ""]);
    expect([cellText(cell({ valueJson: "true" })), cellText(cell({ valueJson: '"true"' })), cellText(cell({})), cellText(undefined)]).toEqual(["Yes", "true", "", ""]);
  });

  test("is read in the type of its column", () => {
    const typed = (type: v1.StackColumnType, text: string) => {
      const value = valueOf({ type, enumValues: ["a"] }, text);
      return "json" in value ? value.json : "problem";
    };
    expect([typed(TEXT, ' a"b '), typed(NUMBER, "-12345678901234567890.10"), typed(INTEGER, "7"), typed(BOOLEAN, "true"), typed(DATE, "2026-02-28"), typed(ENUM, "a")]).toEqual(['"a\\"b"', "-12345678901234567890.10", "7", "true", '"2026-02-28"', '"a"']);
    expect([typed(NUMBER, "1,5"), typed(NUMBER, "01"), typed(NUMBER, "1e5"), typed(INTEGER, "1.5"), typed(BOOLEAN, "yes"), typed(DATE, "2026-02-30"), typed(DATE, "1.1.2026"), typed(ENUM, "b"), typed(TEXT, "é".repeat(4_100))]).toEqual(Array(9).fill("problem"));
    expect([TEXT, NUMBER, INTEGER, BOOLEAN, DATE, ENUM].map((type) => typed(type, "  "))).toEqual(Array(6).fill(""));
  });

  test("has a state with a text, and evidence on a page", () => {
    expect([FILLED, EDITED, APPROVED, REJECTED, EMPTY].map((state) => stateOf(cell({ state })).label)).toEqual(["Filled", "Edited", "Approved", "Rejected", "Empty"]);
    expect([stateOf(undefined).label, stateOf(cell({ state: 99 as v1.StackCellState })).label]).toEqual(["Not filled", "Not filled"]);
    const highlight = (citation: MessageInitShape<typeof v1.CitationSchema>) => linkedHighlight(new URL(evidenceLink(row(1), cell({ citation })) ?? "", "http://a").searchParams);
    expect(highlight({ page: 2, quote: "5 EUR", boxes: [{ left: 0.25, top: 0.1, right: 0.5, bottom: 0.2 }] })).toEqual({ page: 2, boxes: [expect.objectContaining({ left: 0.25 })] });
    expect(highlight({ page: 2, quote: "5 EUR" })).toEqual({ page: 2, boxes: [], quote: "5 EUR" });
    expect(evidenceLink(row(1), cell({}))).toBeUndefined();
  });
});

describe("the rows", () => {
  const page = (rows: v1.StackRow[], nextPageToken = "", totalSize = rows.length) => ({ rows, nextPageToken, totalSize });

  test("have a filter in the address", () => {
    const filter = (text: string) => serverFilter(rowFilterOf(new URLSearchParams(text)));
    expect(["", "show=waiting", "show=edited&document=doc_1", "show=bad&document=a%22b"].map(filter)).toEqual(["", "waiting:true", "document:doc_1 cell:edited", ""]);
  });

  test("are replaced, added at the end and removed by changes", () => {
    const pages = [page([row(1), row(2)], "next", 3), page([row(3)], "", 3)];
    const changes = new Map([["row_2", row(2, [{ column: "Total", valueJson: "5" }], "e2")], ["row_4", row(4)], ["row_1", null], ["row_9", null]]);
    const changed = withChanges(pages, changes, false);
    expect(changed.map(({ rows }) => rows.map(({ stackRowId, etag }) => `${stackRowId} ${etag}`))).toEqual([["row_2 e2"], ["row_3 e1", "row_4 e1"]]);
    expect(changed.map(({ totalSize }) => totalSize)).toEqual([3, 3]);
    // Untouched pages keep their identity for the grid.
    expect(withChanges(pages, new Map([["row_3", row(3, [], "e2")]]), false)[0]?.rows).toBe(pages[0]?.rows);
    // A new row may not match a filter, and the end of the list may not be loaded.
    expect(withChanges(pages, new Map([["row_4", row(4)]]), true)[1]?.rows).toHaveLength(1);
    expect(withChanges([page([row(1)], "next", 5)], new Map([["row_4", row(4)]]), false)[0]).toMatchObject({ rows: [{ stackRowId: "row_1" }], totalSize: 6 });
  });

  test("are counted", () => {
    expect([countText([page([row(1)])]), countText([page([row(1), row(2)], "next", 1_024)]), countText([page([row(1)], "next", 9_000)])]).toEqual(["1 row", "2 of 1024 rows loaded", "1 of more than 1024 rows loaded"]);
  });

  test("are reached by keys", () => {
    const move = (key: string) => movedPosition({ row: 1, column: 1 }, key, 3, 2);
    expect([move("ArrowDown"), move("ArrowUp"), move("ArrowRight"), move("ArrowLeft"), move("End"), move("Home"), move("PageDown")].map((to) => [to?.row, to?.column])).toEqual([[2, 1], [0, 1], [1, 2], [1, 0], [1, 2], [1, 0], [2, 1]]);
    expect([move("x"), move("toString")]).toEqual([undefined, undefined]);
  });
});

test("columns are checked, moved and sent", () => {
  const columns = [newColumn("1"), { ...newColumn("2"), name: "Kind", type: ENUM }];
  expect(problemOf(columns)).toBe("A column has no name.");
  const named = columns.map((column, index) => ({ ...column, name: index === 0 ? " kind " : column.name }));
  expect(problemOf(named)).toBe("Two columns have the same name.");
  expect(problemOf([{ ...newColumn("1"), name: "Kind", type: ENUM }])).toContain("has no values");
  expect(problemOf(Array.from({ length: 65 }, (_, index) => ({ ...newColumn(String(index)), name: `c${index}` })))).toContain("at most 64");
  expect(columnsOf([{ ...draftOf(create(v1.StackColumnSchema, { name: " Total ", type: NUMBER, unit: " EUR " }), 0), enumValues: ["left over"] }])).toEqual([{ name: "Total", type: NUMBER, description: "", required: false, unit: "EUR", enumValues: [] }]);
  expect([moved(["a", "b", "c"], 0, 1), moved(["a", "b"], 0, -1)]).toEqual([["b", "a", "c"], ["a", "b"]]);
});

test("a state of the history has documents, or is another one", () => {
  expect([...(documentsOf({ stackDocuments: [["doc_1", "a"]] }) ?? [])]).toEqual([["doc_1", "a"]]);
  expect([documentsOf(null), documentsOf("x"), documentsOf({ stackDocuments: 7 })]).toEqual([undefined, undefined, undefined]);
});

test("a job belongs to its stack, and a file has a safe name", () => {
  expect([fills({ inputJson: '{"stack":"stk_1"}' }, "stk_1"), fills({ inputJson: '{"stack":"stk_2"}' }, "stk_1"), fills({ inputJson: "" }, "stk_1")]).toEqual([true, false, false]);
  expect([fileName('a/b:c\u0000"'), fileName("///")]).toEqual(["a b c", "table"]);
});

const COLUMNS = [{ name: "Total", type: NUMBER, unit: "EUR" }, { name: "Vendor", type: TEXT }];
const citation = { page: 2, quote: "5 EUR", boxes: [{ left: 0.25, top: 0.1, right: 0.5, bottom: 0.2 }] };

const stackOf = (etag: string, columns: MessageInitShape<typeof v1.StackColumnSchema>[]) => create(v1.StackSchema, { stackId: "stk_1", name: "Invoices", etag, columns });

/** A stack in memory with a stream of changes. */
class FakeStack {
  stack = stackOf("s1", COLUMNS);
  rows = [
    row(1, [{ column: "Total", valueJson: "5", state: FILLED, confidence: 0.5, waiting: true, byAgent: true, citation }, { column: "Vendor", valueJson: JSON.stringify(HOSTILE), state: FILLED, waiting: true, byAgent: true }]),
    row(2, [{ column: "Total", state: EMPTY }]),
  ];
  readonly updates: v1.UpdateStackCellRequest[] = [];
  readonly reviews: v1.ReviewStackCellsRequest[] = [];
  readonly filters: string[] = [];
  /** Number of streams whose first message was read. */
  streams = 0;
  refuse: (() => never) | undefined;
  #version = 1;
  readonly #changes: MessageInitShape<typeof v1.WatchTableResponseSchema>["change"][] = [];
  #wake: (() => void) | undefined;

  emit(change: MessageInitShape<typeof v1.WatchTableResponseSchema>["change"]): void {
    this.#changes.push(change);
    this.#wake?.();
  }

  /** Changes the cells of a row, and returns it with another version. */
  #changed(documentId: string, columns: readonly string[], change: (before: v1.StackCell) => CellInit): v1.StackRow {
    const found = this.rows.find((one) => one.documentId === documentId);
    if (found === undefined) throw new Error("no such row");
    const cells = found.cells.map((one) => (columns.includes(one.column) ? cell({ ...one, ...change(one) } as CellInit) : one));
    const next = create(v1.StackRowSchema, { ...found, cells, etag: `e${++this.#version}` } as MessageInitShape<typeof v1.StackRowSchema>);
    this.rows = this.rows.map((one) => (one === found ? next : one));
    return next;
  }

  services(more: Services = {}): Services {
    return {
      ...more,
      job: { listJobs: () => ({}), ...more.job },
      stack: {
        getStack: () => ({ stack: this.stack }),
        listStackRows: ({ filter }) => {
          this.filters.push(filter);
          return { rows: this.rows, totalSize: this.rows.length };
        },
        watchTable: async function* (this: FakeStack, _: unknown, { signal }: { readonly signal: AbortSignal }) {
          yield { change: { case: "stack" as const, value: this.stack } };
          this.streams += 1;
          while (!signal.aborted) {
            for (const change of this.#changes.splice(0)) yield { change: change ?? { case: undefined } };
            await new Promise<void>((resolve) => {
              this.#wake = resolve;
              signal.addEventListener("abort", () => resolve());
            });
          }
        }.bind(this),
        updateStackCell: (request) => {
          this.refuse?.();
          this.updates.push(request);
          const removed = request.valueJson === "";
          return { row: this.#changed(request.documentId, [request.column], () => ({ valueJson: removed ? undefined : request.valueJson, state: removed ? EMPTY : EDITED, waiting: false })) };
        },
        reviewStackCells: (request) => {
          this.refuse?.();
          this.reviews.push(request);
          const current = this.rows.find(({ documentId }) => documentId === request.documentId);
          if (request.etag !== current?.etag) throw refusal(Code.Aborted, "VERSION_CONFLICT");
          const columns = request.columns.length > 0 ? request.columns : (current?.cells ?? []).filter(({ waiting }) => waiting).map(({ column }) => column);
          const state = { [v1.FieldDecision.APPROVED]: APPROVED, [v1.FieldDecision.REJECTED]: REJECTED }[request.decision as 1 | 2] ?? FILLED;
          return { row: this.#changed(request.documentId, columns, () => ({ state, waiting: state === FILLED })) };
        },
        ...more.stack,
      },
    };
  }
}

const gridCell = (name: RegExp | string) => screen.findByRole("gridcell", { name });
const details = () => within(screen.getByRole("region", { name: "Selected cell" }));

test("a cell is approved, withdrawn and rejected, with its evidence", async () => {
  const fake = new FakeStack();
  const { user } = renderPage(fake.services(), "/stacks/stk_1");
  await user.click(await gridCell(/^5/));
  const shown = details();
  expect(shown.getAllByText("5 EUR")).toHaveLength(2);
  expect([shown.getByText("Filled"), shown.getByText("Waits for a decision"), shown.getByText("50%")]).toHaveLength(3);
  const link = new URL(shown.getByRole("link", { name: "p. 2" }).getAttribute("href") ?? "", "http://a");
  expect(linkedHighlight(link.searchParams)).toMatchObject({ page: 2, boxes: [{ left: 0.25 }] });
  await user.click(shown.getByRole("button", { name: "Approve Total" }));
  expect(await details().findByText("Approved")).toBeTruthy();
  await user.click(details().getByRole("button", { name: "Approve Total", pressed: true }));
  expect(await details().findByText("Filled")).toBeTruthy();
  await user.click(details().getByRole("button", { name: "Reject Total" }));
  expect(await details().findByText("Rejected")).toBeTruthy();
  expect(fake.reviews.map(({ columns, decision, etag }) => [columns, decision, etag])).toEqual([[["Total"], v1.FieldDecision.APPROVED, "e1"], [["Total"], v1.FieldDecision.NONE, "e2"], [["Total"], v1.FieldDecision.REJECTED, "e3"]]);
  expect(document.querySelector("img[src=x]")).toBeNull();
});

test("keys move, decide, edit and open the evidence", async () => {
  const fake = new FakeStack();
  const { user } = renderPage(fake.services(), "/stacks/stk_1");
  (await gridCell(/^5/)).focus();
  // Both decisions are made before the first response arrives: the second one is based on the version of the first.
  await user.keyboard("a");
  await user.keyboard("{ArrowRight}");
  await waitFor(() => expect(document.activeElement?.getAttribute("data-cell")).toBe("0-2"));
  await user.keyboard("r");
  await waitFor(() => expect(fake.reviews.map(({ columns, decision, etag }) => [columns[0], decision, etag])).toEqual([["Total", v1.FieldDecision.APPROVED, "e1"], ["Vendor", v1.FieldDecision.REJECTED, "e2"]]));
  await user.keyboard("{ArrowLeft}");
  await waitFor(() => expect(document.activeElement?.getAttribute("data-cell")).toBe("0-1"));
  await user.keyboard("e");
  const editor = await screen.findByRole("textbox", { name: "Value of Total" });
  await user.clear(editor);
  await user.type(editor, "1,5{Enter}");
  expect(await screen.findByText("Enter a number with a decimal point, such as 1234.5.")).toBeTruthy();
  await user.clear(editor);
  await user.type(editor, "12345678901234567890.50{Enter}");
  await waitFor(() => expect(fake.updates.map(({ column, valueJson, etag }) => [column, valueJson, etag])).toEqual([["Total", "12345678901234567890.50", "e3"]]));
  expect(await details().findByText("Edited")).toBeTruthy();
  (await gridCell(/^12345678901234567890.50/)).focus();
  await user.keyboard("{Enter}");
  await waitFor(() => expect(window.location.pathname).toBe("/documents/doc_1"));
  expect(window.location.search).toContain("page=2&box=");
});

test("all waiting cells of a row are approved at once, and a conflict offers a reload", async () => {
  const fake = new FakeStack();
  const { user } = renderPage(fake.services(), "/stacks/stk_1");
  await user.click(await gridCell(/^5/));
  fake.refuse = () => { throw refusal(Code.Aborted, "VERSION_CONFLICT"); };
  await user.click(details().getByRole("button", { name: "Approve 2 waiting cells of the row" }));
  expect(await details().findByText("This was changed meanwhile")).toBeTruthy();
  fake.refuse = undefined;
  await user.click(details().getByRole("button", { name: "Reload" }));
  await user.click(details().getByRole("button", { name: "Approve 2 waiting cells of the row" }));
  await waitFor(() => expect(screen.getAllByText("Approved").length).toBeGreaterThan(2));
  expect(fake.reviews.map(({ columns, decision }) => [columns, decision])).toEqual([[[], v1.FieldDecision.APPROVED]]);
});

test("a viewer reads the cells only", async () => {
  const fake = new FakeStack();
  const { user } = renderPage(fake.services(), "/stacks/stk_1", { token: "t", organizationId: "org_1", memberships: [{ organizationId: "org_1", name: "Alpha", role: v1.Role.VIEWER }], user: undefined, isPassword: false });
  const first = await gridCell(/^5/);
  await user.click(first);
  first.focus();
  await user.keyboard("a");
  expect(details().queryByRole("button", { name: "Approve Total" })).toBeNull();
  expect([screen.queryByRole("button", { name: "Columns" }), screen.queryByRole("button", { name: "Fill the rows" })]).toEqual([null, null]);
  expect(fake.reviews).toEqual([]);
});

test("changes of the table arrive live, and the columns are read again", async () => {
  const fake = new FakeStack();
  renderPage(fake.services(), "/stacks/stk_1");
  await gridCell(/^5/);
  await waitFor(() => expect(fake.streams).toBe(1));
  // As on a server, a later read of the list has the changes, too.
  fake.rows = [row(1, [{ column: "Total", valueJson: "6", state: FILLED }], "e9"), row(3, [{ column: "Total", valueJson: "77", state: FILLED }])];
  fake.emit({ case: "row", value: row(3, [{ column: "Total", valueJson: "77", state: FILLED }]) });
  fake.emit({ case: "row", value: row(1, [{ column: "Total", valueJson: "6", state: FILLED }], "e9") });
  fake.emit({ case: "removedStackRowId", value: "row_2" });
  expect(await gridCell(/^77/)).toBeTruthy();
  expect(await gridCell(/^6/)).toBeTruthy();
  expect([screen.queryByText("file 2.pdf"), screen.getByText("2 rows")]).toHaveLength(2);
  fake.stack = stackOf("s2", [...COLUMNS, { name: "Due", type: DATE }]);
  fake.emit({ case: "stack", value: fake.stack });
  expect(await screen.findByRole("columnheader", { name: "Due" })).toBeTruthy();
});

test("a broken stream is opened again, and the rows are read again", async () => {
  const fake = new FakeStack();
  let streams = 0;
  const base = fake.services();
  renderPage({
    ...base,
    stack: {
      ...base.stack,
      watchTable: async function* () {
        streams += 1;
        yield { change: { case: "stack" as const, value: fake.stack } };
        if (streams > 1) await new Promise(() => undefined);
        // The change is made while no stream is open.
        fake.rows = [row(8, [{ column: "Total", valueJson: "88", state: FILLED }])];
        throw new ConnectError("lost", Code.Unavailable);
      },
    },
  }, "/stacks/stk_1");
  expect(await gridCell(/^88/)).toBeTruthy();
  await waitFor(() => expect(streams).toBe(2));
});

test("of 10,000 rows only the visible ones are rendered, and pages are loaded at the end", async () => {
  const tokens: string[] = [];
  const fake = new FakeStack();
  const rows = (page: number) => Array.from({ length: 100 }, (_, index) => row(page * 100 + index));
  renderPage(fake.services({
    stack: {
      watchTable: async function* () { await new Promise(() => undefined); yield {}; },
      listStackRows: ({ pageToken }) => {
        tokens.push(pageToken);
        const page = Number(pageToken || "0");
        return { rows: rows(page), nextPageToken: page < 99 ? String(page + 1) : "", totalSize: 1_024 };
      },
    },
  }), "/stacks/stk_1");
  await screen.findByText("file 0.pdf");
  expect(screen.getAllByRole("row").length).toBeLessThan(60);
  const grid = screen.getByRole("grid");
  expect([grid.getAttribute("aria-rowcount"), grid.getAttribute("aria-colcount")]).toEqual(["-1", "3"]);
  expect(tokens).toEqual([""]);
  expect(screen.getAllByRole("gridcell", { name: "Not filled" }).every((one) => one.tabIndex === -1)).toBe(true);
  expect(document.querySelectorAll('[role="grid"] [tabindex="0"]')).toHaveLength(1);
});

test("the rows are filled with a budget, and the job is paused, resumed and cancelled", async () => {
  const fake = new FakeStack();
  const acts: string[] = [];
  const fillRequests: v1.FillStackRequest[] = [];
  let job: MessageInitShape<typeof v1.JobSchema> | undefined;
  const act = (name: string, state: v1.JobState) => () => {
    acts.push(name);
    job = { ...job, state };
    return { job };
  };
  const { user } = renderPage(fake.services({
    stack: {
      fillStack: (request) => {
        fillRequests.push(request);
        job = { jobId: "job_1", inputJson: '{"stack":"stk_1"}', state: v1.JobState.RUNNING, totalItems: 10, doneItems: 3, failedItems: 1, items: [{ number: 1, state: v1.JobItemState.FAILED, error: { message: "no text" } }], creditBudget: { credits: 500n, used: 120n, rest: 380n } };
        return { job };
      },
    },
    job: {
      listJobs: ({ filter }) => ({ jobs: job === undefined || !filter.includes("kind:stack_fill") ? [] : [job] }),
      getJob: () => ({ ...(job && { job }) }),
      pauseJob: act("pause", v1.JobState.PAUSED),
      resumeJob: act("resume", v1.JobState.RUNNING),
      cancelJob: act("cancel", v1.JobState.CANCELLED),
    },
  }), "/stacks/stk_1");
  const budget = await screen.findByRole("textbox", { name: "Credit budget of the filling" });
  await user.type(budget, "0");
  expect(screen.getByRole<HTMLButtonElement>("button", { name: "Fill the rows" }).disabled).toBe(true);
  await user.clear(budget);
  await user.type(budget, "500");
  await user.click(screen.getByRole("button", { name: "Fill the rows" }));
  expect(await screen.findByText("3 of 10 rows, 1 failed")).toBeTruthy();
  expect(screen.getByText("no text")).toBeTruthy();
  expect(await screen.findByText("120 of 500 credits used")).toBeTruthy();
  expect(fillRequests.map(({ stackId, creditBudget }) => [stackId, creditBudget])).toEqual([["stk_1", 500n]]);
  await user.click(screen.getByRole("button", { name: "Pause" }));
  await user.click(await screen.findByRole("button", { name: "Resume" }));
  await screen.findByRole("button", { name: "Pause" });
  await user.click(screen.getByRole("button", { name: "Cancel" }));
  expect(await screen.findByRole("button", { name: "Fill the rows" })).toBeTruthy();
  expect(acts).toEqual(["pause", "resume", "cancel"]);
});

test("the columns are edited with the version that the visitor saw", async () => {
  const fake = new FakeStack();
  const defined: v1.DefineStackColumnsRequest[] = [];
  const { user } = renderPage(fake.services({ stack: { defineStackColumns: (request) => { defined.push(request); return { stack: stackOf("s2", request.columns) }; } } }), "/stacks/stk_1");
  await user.click(await screen.findByRole("button", { name: "Columns" }));
  const form = within(await screen.findByRole("dialog"));
  await user.click(await form.findByRole("button", { name: "Add a column" }));
  expect(form.getByText("A column has no name.")).toBeTruthy();
  await user.type(form.getByRole("textbox", { name: "Name of column 3" }), "Due");
  await choose(user, form.getByRole("combobox", { name: "Type of column 3" }), "Date");
  await user.click(form.getByRole("button", { name: "Move column 3 up" }));
  await user.click(form.getByRole("button", { name: "Save the columns" }));
  await waitFor(() => expect(defined.map(({ etag, columns }) => [etag, columns.map(({ name, type }) => [name, type])])).toEqual([["s1", [["Total", NUMBER], ["Due", DATE], ["Vendor", TEXT]]]]));
  expect(await screen.findByRole("columnheader", { name: "Due" })).toBeTruthy();
});

test("an agent proposes columns in a thread of the stack, and the proposal is a table", async () => {
  const fake = new FakeStack();
  const threads: v1.CreateStackThreadRequest[] = [];
  const chats: v1.ChatRequest[] = [];
  const filters: string[] = [];
  fake.stack = stackOf("s1", []);
  const call = { callId: "c1", name: "define_columns", argumentsJson: JSON.stringify({ columns: [{ name: HOSTILE, type: "number", unit: "EUR" }] }), needsApproval: true, access: v1.ToolAccess.READ_WRITE };
  const { user } = renderPage(fake.services({
    stack: { createStackThread: (request) => { threads.push(request); return { threadId: "thr_1" }; } },
    thread: { listThreads: ({ filter }) => { filters.push(filter); return { threads: [] }; }, getThread: () => ({ thread: { threadId: "thr_1" }, openTurn: { turnId: "trn_1", threadId: "thr_1", status: v1.TurnStatus.AWAITING_APPROVAL, pending: [call], approvableCallIds: ["c1"], nextEvent: 5n } }) },
    model: { listModels: () => ({}) },
    tag: { listTags: () => ({}) },
    conversation: {
      listTools: () => ({}),
      previewToolCall: () => ({ effect: v1.CallEffect.UPDATES, targetKind: "stack", targetName: "Invoices" }),
      chat: async function* (request) {
        chats.push(request);
        const kinds = [{ case: "turnStarted" as const, value: { threadId: "thr_1" } }, { case: "roundStarted" as const, value: { round: 1 } }, { case: "toolCalls" as const, value: { calls: [call] } }, { case: "awaitingApproval" as const, value: { turnId: "trn_1", round: 1, pending: [call] } }];
        for (const [index, kind] of kinds.entries()) yield { event: { turnId: "trn_1", number: BigInt(index + 1), kind } };
      },
    },
  }), "/stacks/stk_1");
  await user.click(await screen.findByRole("button", { name: "Propose columns with an agent" }));
  const composer = await screen.findByLabelText<HTMLTextAreaElement>("Message to the agent");
  expect(composer.value).toBe("Propose the columns of this table.");
  await user.click(screen.getByRole("button", { name: "Send" }));
  const proposal = within(await screen.findByRole("table", { name: "Proposed columns" }));
  expect([proposal.getByText(HOSTILE), proposal.getByText("number in EUR")]).toHaveLength(2);
  expect(chats[0]).toMatchObject({ threadId: "thr_1", profile: "", documentIds: [] });
  expect(threads).toHaveLength(1);
  expect(threads[0]?.requestId).not.toBe(chats[0]?.requestId);
  expect(filters[0]).toBe("stack=stk_1 profile=stack");
  expect(document.querySelector("img[src=x]")).toBeNull();
});

test("conflicts are listed by key columns with their documents", async () => {
  const fake = new FakeStack();
  const requests: v1.GetStackConflictsRequest[] = [];
  const { user } = renderPage(fake.services({
    stack: {
      getStackConflicts: (request) => {
        requests.push(request);
        return { conflicts: [{ key: [HOSTILE], column: "Total", values: [{ value: "5", documentIds: ["doc_1", "doc_2", "doc_3", "doc_4"], documentCount: 9 }, { value: "6", documentIds: ["doc_5"], documentCount: 1 }] }], totalCount: 1 };
      },
    },
    document: { getDocument: ({ documentId }) => ({ document: { documentId, name: documentId } }) },
  }), "/stacks/stk_1?panel=conflicts");
  await choose(user, await screen.findByRole("combobox", { name: "Key columns" }), "Vendor");
  await user.click(screen.getByRole("button", { name: "Find conflicts" }));
  const table = within(await screen.findByRole("table", { name: "Conflicts" }));
  expect([table.getByText(HOSTILE), table.getByText("and 6 more")]).toHaveLength(2);
  await waitFor(() => expect(table.getAllByRole("link").map((link) => link.getAttribute("href"))).toEqual(["/documents/doc_1", "/documents/doc_2", "/documents/doc_3", "/documents/doc_5"]));
  expect(requests.map(({ keyColumns }) => keyColumns)).toEqual([["Vendor"]]);
});

test("a question about a table accepts columns by their types, and its answer has the digits of the server", () => {
  const columns = [{ name: "Vendor", type: TEXT }, { name: "Total", type: NUMBER }, { name: "Due", type: DATE }].map((column) => ({ ...column, enumValues: [] }));
  expect(["count", "sum", "average", "min", "max"].map((name) => columnsFor(name, columns).length)).toEqual([3, 1, 1, 2, 2]);
  const latest = { ...withFunction(COUNT_ROWS, "max", columns), column: "Due" };
  expect([withFunction(latest, "min", columns).column, withFunction(latest, "sum", columns).column]).toEqual(["Due", ""]);
  expect([isComplete(COUNT_ROWS), isComplete(withFunction(latest, "sum", columns)), isComplete(latest)]).toEqual([true, false, true]);
  expect([headingOf(COUNT_ROWS), headingOf(latest)]).toEqual(["Number", "Maximum of Due"]);
  expect(requestOf({ ...latest, groupBy: ["Vendor"] }, columns)).toEqual({ aggregates: [{ function: v1.TableFunction.MAX, column: "Due" }], groupBy: ["Vendor"], approvedOnly: false, filter: {} });
  const filters = [["Vendor", " ACME "], ["Total", "7.50"], ["Total", ""], ["Total", "much"], ["Removed", "7"]].map(([filterColumn = "", filterText = ""]) => ({ ...COUNT_ROWS, filterColumn, filterText }));
  expect(filters.map((question) => requestOf(question, columns).filter)).toEqual([{ Vendor: '"ACME"' }, { Total: "7.50" }, { Total: "null" }, { Total: '"much"' }, { Removed: '"7"' }]);
  expect(filters.map((question) => filterProblem(question, columns) === "")).toEqual([true, true, true, false, true]);
  expect(['"ACME"', "true", "false", "7.50", "null"].map(keyText)).toEqual(["ACME", "Yes", "No", "7.50", "No value"]);
  const result = { value: "12345678901234567890.10", exact: true, unit: "EUR" };
  expect([resultText(result), resultText({ ...result, exact: false, unit: "" }), resultText({ ...result, value: "" }), resultText(undefined)]).toEqual(["12345678901234567890.10 EUR", "12345678901234567890.10 (rounded)", "No value", "No value"]);
});

test("totals of the table are computed by groups", async () => {
  const fake = new FakeStack();
  const requests: v1.AskTableRequest[] = [];
  const { user } = renderPage(fake.services({
    stack: {
      askTable: (request) => {
        requests.push(request);
        return { groups: [{ keyJson: [JSON.stringify(HOSTILE)], rowCount: 3, values: [{ value: "0.30", exact: true, countedRows: 2, skippedRows: 1, unit: "EUR" }] }], rowCount: 3 };
      },
    },
  }), "/stacks/stk_1");
  await user.click(await screen.findByRole("button", { name: "Totals" }));
  const compute = await screen.findByRole("button", { name: "Compute" });
  await choose(user, screen.getByRole("combobox", { name: "Function" }), "Sum");
  expect(compute).toHaveProperty("disabled", true);
  await choose(user, screen.getByRole("combobox", { name: "Column" }), "Total");
  await choose(user, screen.getByRole("combobox", { name: "Group by" }), "Vendor");
  await choose(user, screen.getByRole("combobox", { name: "Only rows with" }), "Vendor");
  await user.type(screen.getByRole("textbox", { name: "Value" }), "ACME");
  await user.click(compute);
  const table = within(await screen.findByRole("table", { name: "Totals" }));
  expect([table.getByText(HOSTILE), table.getByText("0.30 EUR"), table.getByText("without 1 row that has no value"), table.getByText("Sum of Total")]).toHaveLength(4);
  expect(screen.getByText("Computed from 3 rows")).toBeTruthy();
  expect(requests.map(({ aggregates, groupBy, filter }) => [aggregates.map(({ function: name, column }) => [name, column]), groupBy, filter])).toEqual([[[[v1.TableFunction.SUM, "Total"]], ["Vendor"], { Vendor: '"ACME"' }]]);
  await user.click(compute);
  await waitFor(() => expect(requests).toHaveLength(2));
  expect(document.querySelector("img[src=x]")).toBeNull();
});

test("a rule that selects too many documents is stated", async () => {
  const fake = new FakeStack();
  fake.stack = create(v1.StackSchema, { ...fake.stack, tooManyDocuments: true });
  renderPage(fake.services(), "/stacks/stk_1");
  expect(await screen.findByText("More than 10,000 documents fulfill the rule")).toBeTruthy();
});

test("the table is exported as a file", async () => {
  const fake = new FakeStack();
  const requests: v1.ExportTableRequest[] = [];
  const names: string[] = [];
  vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(function (this: HTMLAnchorElement) { names.push(this.download); });
  const { user } = renderPage(fake.services({ stack: { exportTable: async function* (request) { requests.push(request); yield { chunk: new Uint8Array([1]) }; } } }), "/stacks/stk_1");
  await user.click(await screen.findByRole("button", { name: "Export" }));
  await user.click(await screen.findByRole("menuitem", { name: "JSON lines with states and citations" }));
  await waitFor(() => expect(names).toEqual(["Invoices.jsonl"]));
  expect(requests.map(({ format, includeDetails }) => [format, includeDetails])).toEqual([[v1.ExportFormat.JSON_LINES, true]]);
});

test("a stack is created from documents or by a rule, and opens", async () => {
  const created: v1.CreateStackRequest[] = [];
  const fake = new FakeStack();
  const { user } = renderPage(fake.services({
    stack: { listStacks: () => ({}), createStack: (request) => { created.push(request); return { stack: { stackId: "stk_1" } }; } },
    document: { listDocuments: () => ({ documents: [{ documentId: "doc_7", name: "seven.pdf" }] }) },
    tag: { listTags: () => ({ tags: [{ tagId: "tag_1", name: "paid" }] }) },
    model: { listModels: () => ({ models: [{ name: "m1" }] }) },
  }), "/stacks");
  await user.click(await screen.findByRole("button", { name: "New stack" }));
  const form = within(await screen.findByRole("dialog"));
  await user.type(await form.findByRole("textbox", { name: "Name" }), "Invoices");
  expect(form.getByText("Choose the documents of the stack.")).toBeTruthy();
  await choose(user, form.getByRole("combobox", { name: "Documents" }), "seven.pdf");
  await user.click(form.getByRole("switch", { name: /^Values of agents wait/ }));
  await user.click(form.getByRole("switch", { name: /^Rows of new members/ }));
  await user.type(form.getByRole("textbox", { name: "Credit budget of each automatic job" }), "70");
  await user.click(form.getByRole("button", { name: "Create the stack" }));
  await waitFor(() => expect(window.location.pathname).toBe("/stacks/stk_1"));
  expect(created[0]?.stack).toMatchObject({ name: "Invoices", documentIds: ["doc_7"], reviewRule: { minConfidence: 0.9, requiresCitation: true }, autoFill: { creditBudget: 70n } });
  expect(created[0]?.stack?.rule).toBeUndefined();
});

test("a stack is created from documents that are selected in the list", async () => {
  const created: v1.CreateStackRequest[] = [];
  const fake = new FakeStack();
  const { user } = renderPage(fake.services({
    stack: { listStacks: () => ({}), createStack: (request) => { created.push(request); return { stack: { stackId: "stk_1" } }; } },
    document: { listDocuments: ({ pageSize }) => (pageSize > 50 ? { documents: [{ documentId: "doc_1", name: "one.pdf" }, { documentId: "doc_2", name: HOSTILE }], totalSize: 2 } : {}) },
    tag: { listTags: () => ({}) },
    model: { listModels: () => ({}) },
  }), "/");
  await user.click(await screen.findByRole("checkbox", { name: "Select all loaded documents" }));
  await user.click(await screen.findByRole("button", { name: "New stack" }));
  const form = within(await screen.findByRole("dialog", { name: "New stack" }));
  await user.type(await form.findByRole("textbox", { name: "Name" }), "Selected");
  // The names of the documents are known, also if no search has found them.
  expect([form.getByText("one.pdf"), form.getByText(HOSTILE)]).toHaveLength(2);
  await user.click(form.getByRole("button", { name: "Create the stack" }));
  await waitFor(() => expect(created[0]?.stack?.documentIds).toEqual(["doc_1", "doc_2"]));
  await waitFor(() => expect(window.location.pathname).toBe("/stacks/stk_1"));
});
