//! Tests of the tools of the profiles about stacks, and of the items of jobs that fill rows.

use std::time::Duration;

use folio_history::job::{
    ItemRun, JobCommand, JobHeader, JobWrite, JobWritten, NewJob, STACK_FILL_KIND, StackFillInput, StackPlanInput,
    TagRun, TagRunWrite,
};
use folio_resources::{
    AutoFill, CellEdit, CellState, CitationKind, NewStack, Stack, StackChange, StackMembers, StackPatch, StackRow,
    StackRowChange, StackRowId,
};
use folio_tools::stack::{FillStart, check_filled, member_ids, plan_fill, start_fill, unfilled};
use folio_tools::{Registry, ToolError};
use folio_types::op::{Expected, Write, WriteOutcome};
use folio_types::profile::Subject;
use folio_types::{CallId, Digest, DocumentId, Error, Incarnation, JobId, Reason, StackId, TurnId};
use serde_json::{Value, json};

use crate::fixture::Fixture;

pub(crate) async fn write<R: folio_resources::Resource>(
    test: &Fixture,
    id: &R::Id,
    expected: Expected,
    change: R::Change,
) {
    let key = Digest::of(format!("{id} {expected:?} {change:?}").as_bytes()).as_str().parse().unwrap();
    let (org, at) = (test.context.principal.org.clone(), test.context.resources.environment.now());
    let write = Write::by_platform(org, key, at, expected, change);
    let decided = test.context.resources.stores.of::<R>().decide(id, write).await.unwrap();
    assert!(matches!(decided, WriteOutcome::Row(_)));
}

/// Creates a stack of the fixture's document. Returns the same stack if it exists.
pub(crate) async fn stack(test: &Fixture) -> StackId {
    let id = StackId::derive(&["stack"]);
    let stacks = test.context.resources.stores.of::<Stack>();
    if stacks.get(&test.context.principal.org, &id).await.unwrap().is_none() {
        let new = NewStack {
            name: "Invoices".to_owned(),
            description: String::new(),
            members: StackMembers::Documents(vec![test.document()]),
            model: None,
            review_rule: None,
            auto_fill: Some(AutoFill::default()),
        };
        write::<Stack>(test, &id, Expected::Absent, StackChange::Create(Box::new(new))).await;
    }
    id
}

/// Defines the columns of the stack `Invoices`, and fills the totals of these documents.
pub(crate) async fn filled_table(test: &mut Fixture, totals: &[(&DocumentId, f64)]) {
    let id = stack(test).await;
    let own = test.document();
    let add_documents = totals.iter().map(|(document, _)| (*document).clone()).filter(|id| *id != own).collect();
    let add = StackPatch { add_documents, ..StackPatch::default() };
    write::<Stack>(test, &id, Expected::Version(1), StackChange::Update(Box::new(add))).await;
    test.tools = Registry::standard().unwrap().profile("stack").unwrap();
    let (subject, documents) = (test.context.subject.clone(), std::mem::take(&mut test.context.documents));
    test.context.subject = Some(Subject::Stack(id));
    test.ok("define_columns", columns()).await;
    for (document, total) in totals {
        let cells = json!({ "document_id": document, "cells": [cell("Total", json!(total))] });
        test.ok("extract_row", cells).await;
    }
    (test.context.subject, test.context.documents) = (subject, documents);
}

/// Returns a turn about a stack of the fixture's document and one more.
async fn begun() -> (Fixture, StackId, DocumentId) {
    let mut test = Fixture::new().await;
    let (id, other) = (stack(&test).await, test.add_document("other.txt", &["Total: 7"], &[]).await);
    let add = StackPatch { add_documents: vec![other.clone()], ..StackPatch::default() };
    write::<Stack>(&test, &id, Expected::Version(1), StackChange::Update(Box::new(add))).await;
    test.tools = Registry::standard().unwrap().profile("stack").unwrap();
    test.context.subject = Some(Subject::Stack(id.clone()));
    (test, id, other)
}

fn columns() -> Value {
    json!({ "columns": [
        { "name": "Total", "type": "number", "unit": "EUR", "required": true },
        { "name": "Kind", "type": "enum", "enum": ["invoice", "note"] },
    ] })
}

fn cell(column: &str, value: Value) -> Value {
    json!({ "column": column, "value": value, "confidence": 0.9 })
}

/// Returns an attempt of the first item of a job.
fn attempt(job: &str, attempt: u32) -> ItemRun {
    ItemRun { job: JobId::derive(&[job]), item: 1, epoch: 1, attempt }
}

async fn row(test: &Fixture, stack: &StackId, document: &DocumentId) -> StackRow {
    let rows = test.context.resources.stores.of::<StackRow>();
    rows.get(&test.context.principal.org, &StackRowId::of(stack, document)).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_table_is_defined_filled_corrected_and_completed() {
    let (mut test, id, other) = begun().await;
    let document = test.document();
    test.context.documents.clear();
    let listed = test.ok("list_documents", json!({})).await;
    assert_eq!((&listed["total"], &listed["documents"][0]["name"]), (&json!(2), &json!("invoice.pdf")));
    let read = test.ok("get_document_text", json!({ "document_id": document, "page": 1 })).await;
    assert!(read["text"].as_str().unwrap().contains("Total: 120.50"));
    let early = json!({ "document_id": document, "cells": [cell("Total", json!(1))] });
    test.assert_errors("extract_row", [(early, "has no columns")]).await;
    test.ok("define_columns", columns()).await;

    let quoted = json!({
        "column": "total", "value": 120.5, "confidence": 0.9, "citation": { "page": 1, "quote": "Total: 120.50" },
    });
    let cells = json!({ "document_id": document, "cells": [quoted, cell("Kind", json!("Invoice"))] });
    test.ok("extract_row", cells).await;
    let filled = row(&test, &id, &document).await;
    let citation = filled.cells[&1].citation.as_ref().unwrap();
    assert_eq!((citation.kind, citation.page), (CitationKind::Cited, 1));
    assert_eq!(filled.cells[&2].value, Some(json!("invoice")));
    test.ok("update_cell", json!({ "document_id": document, "column": "Kind", "value": null, "confidence": 1 })).await;
    assert_eq!(row(&test, &id, &document).await.cells[&2].state(), CellState::Empty);

    test.assert_errors("complete_table", [(json!({}), other.as_str())]).await;
    let cells = json!({ "document_id": other, "cells": [cell("Total", json!(7)), cell("Kind", Value::Null)] });
    test.ok("extract_row", cells).await;
    let state = test.ok("get_table_state", json!({})).await;
    assert_eq!((&state["rows"][1]["cells"]["Total"]["value"], &state["rows"][1]["missing"]), (&json!(7), &json!([])));
    test.ok("complete_table", json!({})).await;
    assert_eq!(test.ok("get_table_state", json!({})).await["complete"], json!(true));
}

#[tokio::test]
async fn a_call_with_problems_writes_nothing_and_names_all_of_them() {
    let (mut test, id, _) = begun().await;
    let (document, outside) = (test.document(), test.add_document("outside.txt", &["Total: 9"], &[]).await);
    test.ok("define_columns", columns()).await;
    let of = |cells: Value| json!({ "document_id": document, "cells": cells });
    let quoted = |quote: &str| {
        json!([{
            "column": "Total", "value": 120.5, "confidence": 0.9, "citation": { "page": 1, "quote": quote },
        }])
    };
    test.assert_errors(
        "extract_row",
        [
            (of(json!([cell("Sum", json!(1))])), "\"Total\""),
            (of(json!([cell("Total", json!("many")), cell("Kind", json!("letter"))])), "one of"),
            (of(json!([cell("Total", json!(1)), cell("total", json!(2))])), "twice"),
            (of(json!([{ "column": "Total", "value": 1, "confidence": 2 }])), "Confidence"),
            (of(quoted("Total: 999")), "does not occur"),
            (json!({ "document_id": outside, "cells": [cell("Total", json!(9))] }), "not a document of this stack"),
        ],
    )
    .await;
    test.assert_errors("get_document_text", [(json!({ "document_id": outside }), "not a document of this stack")])
        .await;
    let rows = test.context.resources.stores.of::<StackRow>();
    let found = rows.get(&test.context.principal.org, &StackRowId::of(&id, &document)).await.unwrap();
    assert_eq!(found, None);
}

#[tokio::test]
async fn an_agent_leaves_the_values_of_persons_alone() {
    let (mut test, id, _) = begun().await;
    let document = test.document();
    test.ok("define_columns", columns()).await;
    let total = json!({ "document_id": document, "cells": [cell("Total", json!(1))] });
    test.ok("extract_row", total.clone()).await;
    let row_id = StackRowId::of(&id, &document);
    let edit = CellEdit { column: 1, revision: 1, value: Some(json!(120.5)), columns: Vec::new() };
    let edit = StackRowChange::Edit(edit);
    // The person edits between the plan and the run of a call.
    let context = test.next();
    let plan = test.plan(&context, "extract_row", &total).await.unwrap();
    write::<StackRow>(&test, &row_id, Expected::Version(1), edit).await;
    let refused = test.run(&context, "extract_row", &total, &plan).await.unwrap_err();
    assert_eq!(refused, ToolError::Conflict);
    test.assert_errors("extract_row", [(total, "a person entered the value")]).await;
    assert_eq!(row(&test, &id, &document).await.cells[&1].value, Some(json!(120.5)));
}

#[tokio::test]
async fn a_turn_that_fills_a_row_reaches_no_other_document() {
    let (mut test, _, other) = begun().await;
    test.ok("define_columns", columns()).await;
    test.tools = Registry::standard().unwrap().profile("stack_row").unwrap();
    // The documents of the context are the only one of the turn.
    let cells = json!({ "document_id": other, "cells": [cell("Total", json!(7))] });
    test.assert_errors("extract_row", [(cells, "not a document of this stack")]).await;
    let state = test.ok("get_table_state", json!({})).await;
    assert_eq!((&state["total"], &state["rows"][0]["missing"]), (&json!(1), &json!(["Total", "Kind"])));
}

#[tokio::test]
async fn an_item_runs_a_turn_only_if_cells_are_missing() {
    let (mut test, id, other) = begun().await;
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let (stores, org, attempt) = (&resources.stores, &principal.org, attempt("fill", 1));
    let input = StackFillInput { stack: id.clone(), model: None, credit_budget: None, cause: None };
    let start =
        async |document: &DocumentId| start_fill(&resources, &principal, &attempt, document, &input, None).await;
    let skipped = |reason: &str| Ok(FillStart::Done(json!({ "skipped": reason })));
    assert_eq!(start(&other).await, skipped("the table has no columns"));
    test.ok("define_columns", columns()).await;
    test.context.documents.clear();
    let Ok(FillStart::Run(run)) = start(&other).await else { panic!("no turn") };
    assert_eq!(start(&other).await, Ok(FillStart::Run(run.clone())), "a later attempt");
    let header = stores.threads.header(org, &run.thread).await.unwrap().unwrap();
    assert_eq!((header.subject, header.profile.as_str()), (Some(Subject::Stack(id.clone())), "stack_row"));
    let ended = || Error::precondition(Reason::BudgetExhausted, "the budget is exhausted");
    let failed = check_filled(stores, org, &run, ended()).await.unwrap_err();
    assert_eq!(failed.reason, Reason::BudgetExhausted);
    assert!(failed.message.contains("\"Total\", \"Kind\""), "{failed}");

    let cells = json!({ "document_id": other, "cells": [cell("Total", json!(7)), cell("Kind", Value::Null)] });
    test.ok("extract_row", cells).await;
    let done = check_filled(stores, org, &run, ended()).await.unwrap();
    assert_eq!(start(&other).await, Ok(FillStart::Done(done)));
    let stack = stores.of::<Stack>().get(org, &id).await.unwrap().unwrap();
    let first = member_ids(stores, org, &stack).await.unwrap().remove(0);
    assert_eq!(unfilled(stores, org, &stack).await.unwrap(), [first]);
    let outside = test.add_document("outside.txt", &["Total: 9"], &[]).await;
    assert_eq!(start(&outside).await, skipped("the document is not in the stack"));
    assert_eq!(start(&DocumentId::derive(&["missing"])).await, skipped("the document was deleted"));
}

#[tokio::test]
async fn an_item_fills_only_the_cells_of_a_changed_column() {
    let (mut test, id, document) = begun().await;
    test.context.documents.clear();
    test.ok("define_columns", columns()).await;
    let filled = |cells: Value| json!({ "document_id": document, "cells": cells });
    test.ok("extract_row", filled(json!([cell("Total", json!(1)), cell("Kind", json!("note"))]))).await;
    let before = row(&test, &id, &document).await;
    let mut changed = columns();
    changed["columns"][0]["description"] = json!("The gross amount.");
    test.ok("define_columns", changed).await;

    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let input = StackFillInput { stack: id.clone(), model: None, credit_budget: None, cause: None };
    let started = start_fill(&resources, &principal, &attempt("fill", 1), &document, &input, None).await.unwrap();
    let FillStart::Run(run) = started else { panic!("no turn") };
    test.tools = Registry::standard().unwrap().profile("stack_row").unwrap();
    test.context.documents = vec![document.clone()];
    test.context.call = CallId::new(TurnId::new(run.thread, 1), 1, 1);
    let both = filled(json!([cell("Total", json!(120.5)), cell("Kind", json!("invoice"))]));
    test.assert_errors("extract_row", [(both, "\"Kind\": the cell was filled before")]).await;
    test.ok("extract_row", filled(json!([cell("Total", json!(120))]))).await;
    // The turn may correct a cell that it has filled.
    test.ok("update_cell", json!({ "document_id": document, "column": "Total", "value": 120.5, "confidence": 1 }))
        .await;
    let after = row(&test, &id, &document).await;
    assert_eq!((&after.cells[&1].value, after.cells[&1].revision), (&Some(json!(120.5)), 2));
    assert_eq!(after.cells[&2], before.cells[&2]);
}

#[tokio::test]
async fn an_automatic_job_waits_for_the_write_that_causes_it() {
    let (mut test, id, other) = begun().await;
    test.ok("define_columns", columns()).await;
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let at = resources.environment.now();
    let cause = Some(TagRun { at, write: TagRunWrite::Document(99) });
    let input = StackFillInput { stack: id.clone(), model: None, credit_budget: None, cause };
    let pending = start_fill(&resources, &principal, &attempt("fill", 1), &other, &input, None).await.unwrap_err();
    assert_eq!(pending.reason, Reason::StoreUnavailable);

    let plan = async |version: u64| plan_fill(&resources, &principal, &id, &StackPlanInput { version, at }).await;
    assert_eq!(plan(99).await.unwrap_err().reason, Reason::StoreUnavailable);
    let planned = plan(3).await.unwrap();
    assert_eq!(planned["documents"], json!(2));
    assert_eq!(plan(3).await.unwrap(), planned, "a later attempt");
    assert_eq!(plan(2).await.unwrap(), planned, "the planning job of an earlier change");
    let created: JobId = planned["job_id"].as_str().unwrap().parse().unwrap();
    let header = resources.stores.jobs.header(&principal.org, &created).await.unwrap().unwrap();
    assert_eq!((header.kind.as_str(), header.items.len()), ("stack_fill", 2));
}

/// Stores a command of a job.
async fn command(test: &Fixture, job: JobHeader, command: JobCommand) -> JobHeader {
    let now = test.context.resources.environment.now();
    let after = job.after(command, now).unwrap().unwrap();
    let batch = u128::from(after.version);
    let write = JobWrite { batch, before: job, after, outcome: None };
    match test.context.resources.stores.jobs.write(write).await.unwrap() {
        JobWritten::Done(header) => *header,
        JobWritten::Refused(header) => panic!("{header:?}"),
    }
}

#[tokio::test]
async fn one_job_at_a_time_runs_a_turn_for_a_row() {
    let (mut test, id, document) = begun().await;
    test.context.documents.clear();
    test.ok("define_columns", columns()).await;
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let input = StackFillInput { stack: id.clone(), model: None, credit_budget: None, cause: None };
    let start = async |job: &str, number: u32| {
        start_fill(&resources, &principal, &attempt(job, number), &document, &input, None).await
    };
    let new = NewJob {
        id: JobId::derive(&["first"]),
        principal: principal.clone(),
        kind: STACK_FILL_KIND.to_owned(),
        input: json!(input),
        items: vec![document.to_string()],
        running_max: Duration::from_secs(600),
        at: resources.environment.now(),
    };
    let job = resources.stores.jobs.create(new.header().unwrap()).await.unwrap();
    let owner = Incarnation::derive(&["node"]);
    let job = command(&test, job, JobCommand::Start { owner, access: Ok(principal.clone()) }).await;
    let job = command(&test, job, JobCommand::Begin { item: 0 }).await;
    assert!(matches!(start("first", 1).await, Ok(FillStart::Run(_))));

    let waits = start("second", 1).await.unwrap_err();
    assert_eq!((waits.reason, waits.details["id"].as_str()), (Reason::JobOpen, job.id.as_str()));
    // The attempt is over, and its job begins another one later.
    let job = command(&test, job, JobCommand::Postpone { item: 0 }).await;
    let Ok(FillStart::Run(run)) = start("second", 1).await else { panic!("no turn") };
    assert_eq!(start("second", 1).await, Ok(FillStart::Run(run)), "a repeated claim");
    command(&test, job, JobCommand::Begin { item: 0 }).await;
    // No record of the second job exists, so its attempt is over.
    assert!(matches!(start("first", 2).await, Ok(FillStart::Run(_))));
    assert_eq!(start("second", 2).await.unwrap_err().reason, Reason::JobOpen);

    let cells = json!({ "document_id": document, "cells": [cell("Total", json!(7)), cell("Kind", Value::Null)] });
    test.ok("extract_row", cells).await;
    assert!(matches!(start("second", 3).await, Ok(FillStart::Done(_))), "the first job has filled the row");
}
