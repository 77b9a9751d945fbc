//! Tests of the items of jobs that extract data.

use std::time::Duration;

use async_trait::async_trait;
use folio_history::job::{ItemRun, JobFilter, KIND, Steps, TagRun, TagRunWrite};
use folio_llm::{ModelError, TimeLimit};
use folio_resources::{AgentStep, ExtractionChange, ExtractionState, Prompt, PromptChange, PromptUpdate};
use folio_storage::{JOB_HINTS, NewPage, OpStore, hinted_job};
use folio_storage_conformance::layer::{Layered, OpLayer};
use folio_tools::extraction::{self, ItemProgress, JobInput, Options, agent_run_of_item};
use folio_tools::{ToolError, ToolResources};
use folio_types::op::{ClosedAs, Expected, OpKey, OpRow, OpState, Target, Write, WriteOutcome};
use folio_types::page::PageRequest;
use folio_types::{
    BudgetPart, BudgetRoot, BudgetUse, Digest, DocumentId, Error, Incarnation, JobId, OrgId, Principal, PromptId,
    PromptRevId, Reason, ThreadId,
};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::extraction::long_document;
use crate::fixture::{Fixture, text, usage};

fn attempt(item: u32, epoch: u64, attempt: u32) -> ItemRun {
    ItemRun { job: JobId::derive(&["j"]), item, epoch, attempt }
}

/// Returns the outcome of an item that the agent does not run.
fn outcome(progress: ItemProgress) -> Value {
    match progress {
        ItemProgress::Done(outcome) => outcome,
        ItemProgress::Agent(..) => panic!("{progress:?}"),
    }
}

/// Runs an item that reports its progress to no one.
async fn run_job_item(
    resources: &ToolResources,
    principal: &Principal,
    run: &ItemRun,
    subject: &str,
    input: &Value,
) -> Result<Value, Error> {
    let steps = watch::channel(None).0;
    extraction::run_job_item(resources, principal, run, subject, input, steps, None).await.map(outcome)
}

fn input(prompt: &str) -> Value {
    json!(JobInput::new(prompt.parse().unwrap()))
}

#[tokio::test]
async fn a_later_attempt_finds_the_extraction_of_an_earlier_one_without_a_model_call() {
    let mut test = Fixture::new().await;
    let (_, prompt) = test.invoice_prompt().await;
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let document = test.document().to_string();
    let run = async |run: ItemRun| run_job_item(&resources, &principal, &run, &document, &input(&prompt)).await;
    test.models.answer(r#"{"total": 120.5}"#);
    let first = run(attempt(1, 1, 1)).await.unwrap();
    assert_eq!(run(attempt(1, 2, 2)).await.unwrap(), first);
    assert_eq!(test.models.requests().len(), 1);
    let id = first["extraction_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(test.extraction(&id).await.original, json!({ "total": 120.5 }));
    let recorded = usage(&test).await;
    assert_eq!(recorded.len(), 1);
    assert!(recorded[0].key.starts_with(&attempt(1, 1, 1).ledger_key(1)), "{}", recorded[0].key);

    test.models.answer(r#"{"total": 7}"#);
    assert_ne!(run(attempt(2, 2, 1)).await.unwrap(), first, "another item has another effect");
}

#[tokio::test]
async fn an_item_with_another_input_does_not_return_the_recorded_extraction() {
    let mut test = Fixture::new().await;
    let (_, prompt) = test.invoice_prompt().await;
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let document = test.document().to_string();
    test.models.answer(r#"{"total": 120.5}"#);
    run_job_item(&resources, &principal, &attempt(1, 1, 1), &document, &input(&prompt)).await.unwrap();
    let other = PromptRevId::new(PromptId::derive(&["other"]), 1).to_string();
    let refused = run_job_item(&resources, &principal, &attempt(1, 1, 2), &document, &input(&other)).await;
    assert_eq!(refused.unwrap_err().reason, Reason::RequestIdConflict);
    let missing = run_job_item(&resources, &principal, &attempt(2, 1, 1), &document, &input(&other)).await;
    assert_eq!(missing.unwrap_err().reason, Reason::NotFound);
}

#[tokio::test]
async fn a_prompt_runs_once_on_each_text_of_a_document_with_its_tag() {
    let mut test = Fixture::new().await;
    let tag = text(&test.ok("create_tag", json!({ "name": "invoices" })).await["tag_id"]);
    let arguments = json!({ "name": "Total", "content": "Read the total.", "tag_ids": [tag] });
    let prompt = text(&test.ok("create_prompt", arguments).await["prompt_revid"]);
    let tagged = test.add_document("tagged.txt", &["Total 120.5"], &[tag.parse().unwrap()]).await;
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let tag_run = Some(TagRun { at: resources.environment.now(), write: TagRunWrite::Prompt });
    let input = json!(JobInput { tag_run, ..JobInput::new(prompt.parse().unwrap()) });
    let run = async |job: &str, document: &DocumentId| {
        let run = ItemRun { job: JobId::derive(&[job]), item: 1, epoch: 1, attempt: 1 };
        run_job_item(&resources, &principal, &run, document.as_str(), &input).await
    };
    test.models.answer(r#"{"total": 120.5}"#);
    let first = run("one", &tagged).await.unwrap();
    assert_eq!(run("other", &tagged).await.unwrap(), first, "another job for the same text");
    assert_eq!(test.models.requests().len(), 1);
    let skipped = run("untagged", &test.document()).await.unwrap();
    assert_eq!(skipped, json!({ "skipped": "the prompt shares no tag with the document" }));

    test.next();
    test.ingest(&tagged, vec![NewPage::of_text(1, "Total 7")]).await;
    test.models.answer(r#"{"total": 7}"#);
    assert_ne!(run("new text", &tagged).await.unwrap(), first);
    let id = first["extraction_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(test.extraction(&id).await.original, json!({ "total": 120.5 }), "the first extraction is kept");
}

/// Stores that the agent runs a prompt, and returns the revision.
async fn run_by_agent(test: &Fixture, first: &str) -> PromptRevId {
    let (resources, org) = (&test.context.resources, test.context.principal.org.clone());
    let change = PromptChange::Update(PromptUpdate { is_run_by_agent: Some(true), ..PromptUpdate::default() });
    let (prompt, at) = (first.parse::<PromptRevId>().unwrap().of, resources.environment.now());
    let write = Write::by_platform(org, "agent".parse().unwrap(), at, Expected::Version(1), change);
    assert!(matches!(resources.stores.of::<Prompt>().decide(&prompt, write).await.unwrap(), WriteOutcome::Row(_)));
    PromptRevId::new(prompt, 2)
}

#[tokio::test]
async fn a_run_of_the_agent_by_a_tag_keeps_its_extraction_and_belongs_to_one_job() {
    let mut test = Fixture::new().await;
    let tag = text(&test.ok("create_tag", json!({ "name": "invoices" })).await["tag_id"]);
    let arguments = json!({ "name": "Total", "content": "Read the total.", "tag_ids": [tag] });
    let first = text(&test.ok("create_prompt", arguments).await["prompt_revid"]);
    let prompt = run_by_agent(&test, &first).await;
    let tagged = test.add_document("tagged.txt", &["Total 120.5"], &[tag.parse().unwrap()]).await;
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let tag_run = Some(TagRun { at: resources.environment.now(), write: TagRunWrite::Prompt });
    let input = json!(JobInput { tag_run, ..JobInput::new(prompt) });
    let run = async |job: &str, attempt: u32| {
        let run = ItemRun { job: JobId::derive(&[job]), item: 1, epoch: 1, attempt };
        let steps = watch::channel(None).0;
        extraction::run_job_item(&resources, &principal, &run, tagged.as_str(), &input, steps, None).await.unwrap()
    };
    let begun = run("one", 1).await;
    let ItemProgress::Agent(id, _) = begun.clone() else { panic!("{begun:?}") };
    let of_other_job = outcome(run("other", 1).await);
    assert_eq!(of_other_job, json!({ "extraction_id": id }), "the job that began the run drives it");
    test.next();
    test.ingest(&tagged, vec![NewPage::of_text(1, "Total 7")]).await;
    assert_eq!(run("one", 2).await, begun, "a later attempt after the document got another text");
    let of_new_text = run("new text", 1).await;
    assert!(matches!(&of_new_text, ItemProgress::Agent(other, _) if *other != id), "{of_new_text:?}");
}

#[tokio::test]
async fn the_first_run_of_the_agent_on_an_item_is_the_same_for_all_attempts() {
    let mut test = Fixture::new().await;
    let (_, first) = test.invoice_prompt().await;
    let prompt = run_by_agent(&test, &first).await;
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let (input, document) = (input(&prompt.to_string()), test.document().to_string());
    let part = BudgetPart::whole(BudgetRoot::Job(attempt(1, 1, 1).job), 90).child(1);
    let run = async |number: u32| {
        let (run, steps, part) = (attempt(1, 1, number), watch::channel(None).0, Some(part.clone()));
        extraction::run_job_item(&resources, &principal, &run, &document, &input, steps, part).await.unwrap()
    };
    let begun = run(1).await;
    let ItemProgress::Agent(id, agent) = begun.clone() else { panic!("{begun:?}") };
    let stored = test.extraction(&id).await;
    assert!(stored.is_run_of(&agent.thread) && stored.state() == ExtractionState::InProgress);
    let found = agent_run_of_item(&resources.stores, &principal, &attempt(1, 1, 1).job, 1).await.unwrap();
    assert_eq!(found, Some((id.clone(), agent.thread.clone())));
    let thread = resources.stores.threads.header(&principal.org, &agent.thread).await.unwrap().unwrap();
    assert_eq!(thread.budget_part, Some(part.clone()), "the part of the item pays for the turn");
    assert_eq!(thread.job, Some(attempt(1, 1, 1).job), "a pause of the job stops the turn");
    assert_eq!(run(2).await, begun);
    let at = resources.environment.now();
    extraction::end_run(&resources.stores, &principal, (&id, &agent.thread), "stopped", at).await.unwrap();
    assert_eq!((test.extraction(&id).await.state(), run(3).await), (ExtractionState::Failed, begun));
    let start = AgentStep::Start { thread: ThreadId::derive(&["correction"]) };
    test.write_extraction(id.as_str(), ExtractionChange::Agent(Box::new(start))).await;
    assert_eq!(outcome(run(4).await), json!({ "extraction_id": id }), "a person started another run");
    assert!(test.models.requests().is_empty());
}

#[tokio::test]
async fn the_tool_starts_a_job_whose_items_run_once_its_call_succeeded() {
    let mut test = Fixture::new().await;
    let (_, prompt) = test.invoice_prompt().await;
    let (context, document) = (test.next(), test.document().to_string());
    let arguments = json!({ "document_ids": [document] });
    let started = test.call_in(&context, "run_extractions", &arguments).await.unwrap().content;
    let again = test.call_in(&context, "run_extractions", &arguments).await.unwrap().content;
    assert_eq!(started, again, "a repeated call");
    let id: JobId = started["job_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(started.as_object().unwrap().keys().collect::<Vec<_>>(), ["job_id", "note"]);
    let hints = &test.context.resources.job_hints;
    let waiting = hints.claim(JOB_HINTS, &Incarnation::derive(&["node"]), 10, Duration::ZERO).await.unwrap();
    let hinted: Vec<_> = waiting.iter().filter_map(|hint| hinted_job(&hint.job)).collect();
    assert_eq!(hinted, [(test.context.principal.org.clone(), id.clone())], "a hint after the call succeeded");
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let job = resources.stores.jobs.header(&principal.org, &id).await.unwrap().unwrap();
    assert_eq!((job.items.len(), job.items[0].id.as_str(), &job.input["prompt"]), (1, &*document, &json!(prompt)));
    assert_eq!(job.principal, principal);

    let run = ItemRun { job: id.clone(), item: 1, epoch: 1, attempt: 1 };
    let run_with = async |input: &Value| run_job_item(&resources, &principal, &run, &document, input).await;
    let mut input = job.input.clone();
    let other = test.next().call;
    input["call"] = json!(other);
    assert_eq!(run_with(&input).await.unwrap_err().reason, Reason::StoreUnavailable, "the call has no outcome");
    let closed = OpRow::closed(OpKey::Call(other), Digest::of(b"{}"), ClosedAs::Aborted, job.created_at);
    resources.stores.ops.close(&principal.org, &Target::new(KIND, &id), closed).await.unwrap();
    assert_eq!(run_with(&input).await.unwrap_err().reason, Reason::VersionConflict, "the call was closed");
    assert_eq!(test.models.requests().len(), 0);
    test.models.answer(r#"{"total": 120.5}"#);
    run_with(&job.input).await.unwrap();
}

#[tokio::test]
async fn a_job_of_a_turn_with_a_budget_receives_half_of_the_rest_before_its_items_run() {
    let mut test = Fixture::new().await;
    test.invoice_prompt().await;
    let turn = BudgetPart::whole(BudgetRoot::Turn(test.context.call.turn.clone()), 10);
    test.context.budget_part = Some(turn.clone());
    let (resources, org) = (test.context.resources.clone(), test.context.principal.org.clone());
    let use_of = async |part: &BudgetPart| resources.stores.budgets().use_of(&org, part).await.unwrap();
    let arguments = json!({ "document_ids": [test.document()] });
    let context = test.next();
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let started = test.call_in(&context, "run_extractions", &arguments).await.unwrap().content;
        let id: JobId = started["job_id"].as_str().unwrap().parse().unwrap();
        let job = resources.stores.jobs.header(&org, &id).await.unwrap().unwrap();
        assert_eq!(job.budget_part(), Some(turn.child(&id)));
        assert_eq!(use_of(&turn).await, Some(BudgetUse { credits: 10, used: 0, rest: 5 }), "a repeated call");
        jobs.push(turn.child(&id));
    }
    assert_eq!(use_of(&jobs[0]).await, Some(BudgetUse::unused(5)));

    let mut closed = test.next();
    closed.resources.stores.ops = Layered::over(ClosedFirst, &resources.stores.ops);
    let refused = test.call_in(&closed, "run_extractions", &arguments).await.unwrap_err();
    assert_eq!(refused, ToolError::Conflict);
    assert_eq!(
        use_of(&turn).await,
        Some(BudgetUse { credits: 10, used: 0, rest: 5 }),
        "the part of a closed call returns"
    );
}

/// Another process closes each call before its outcome is stored.
struct ClosedFirst;

#[async_trait]
impl OpLayer for ClosedFirst {
    async fn close(&self, below: &dyn OpStore, org: &OrgId, target: &Target, row: OpRow) -> Result<OpRow, Error> {
        below.close(org, target, OpRow { state: OpState::Aborted, ..row }).await
    }
}

#[tokio::test]
async fn run_extraction_starts_a_job_if_the_agent_runs_the_prompt() {
    let mut test = Fixture::new().await;
    let (_, first) = test.invoice_prompt().await;
    let prompt = run_by_agent(&test, &first).await;
    let started = test.ok("run_extraction", json!({ "prompt_revid": prompt })).await;
    assert_eq!(started.as_object().unwrap().keys().collect::<Vec<_>>(), ["job_id", "note"]);
    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let id: JobId = started["job_id"].as_str().unwrap().parse().unwrap();
    let job = resources.stores.jobs.header(&principal.org, &id).await.unwrap().unwrap();
    let (run, steps) = (ItemRun { job: id, item: 1, epoch: 1, attempt: 1 }, watch::channel(None).0);
    let item = job.items[0].id.as_str();
    let progress = extraction::run_job_item(&resources, &principal, &run, item, &job.input, steps, None).await;
    assert!(matches!(progress, Ok(ItemProgress::Agent(..))), "{progress:?}");
    assert!(test.models.requests().is_empty());
    test.models.answer(r#"{"total": 120.5}"#);
    let by_call = test.ok("run_extraction", json!({ "prompt_revid": first })).await;
    assert!(by_call["extraction_id"].is_string(), "the first revision is run by one model call");
}

#[tokio::test]
async fn the_tool_refuses_wrong_documents_before_it_starts_a_job() {
    let mut test = Fixture::new().await;
    test.invoice_prompt().await;
    let (document, missing) = (test.document(), DocumentId::derive(&["missing"]));
    for (ids, problem) in [
        (json!([]), "is empty"),
        (json!([document, document]), "twice"),
        (json!([document, missing]), "does not exist"),
        (json!(["invoice.pdf"]), "malformed"),
    ] {
        let message = test.error_of("run_extractions", json!({ "document_ids": ids })).await;
        assert!(message.contains(problem), "{message}");
    }
    let (stores, org) = (&test.context.resources.stores, &test.context.principal.org);
    assert_eq!(stores.jobs.list(org, &JobFilter::default(), &PageRequest::default()).await.unwrap().total, 0);
}

#[tokio::test]
async fn a_document_with_more_windows_than_a_call_may_extract_becomes_a_job() {
    let mut test = Fixture::new().await;
    test.invoice_prompt().await;
    long_document(&mut test).await;
    test.context.resources.extraction = Options { request_windows_max: 1, ..Options::default() };
    let started = test.ok("run_extraction", json!({})).await;
    assert_eq!(started.as_object().unwrap().keys().collect::<Vec<_>>(), ["job_id", "note"]);
    assert!(test.models.requests().is_empty());

    let (resources, principal) = (test.context.resources.clone(), test.context.principal.clone());
    let id: JobId = started["job_id"].as_str().unwrap().parse().unwrap();
    let job = resources.stores.jobs.header(&principal.org, &id).await.unwrap().unwrap();
    let document = test.document().to_string();
    assert_eq!((job.items.len(), &job.items[0].id), (1, &document));
    // The first attempt dies after its first window.
    let attempt = |attempt| ItemRun { job: id.clone(), item: 1, epoch: 1, attempt };
    test.models.answer(r#"{"total": 957.5}"#);
    test.models.fail(ModelError::Timeout(TimeLimit::WholeCall));
    let (steps, progress) = watch::channel(None);
    let run = |number, steps| {
        let (resources, principal, run) = (resources.clone(), principal.clone(), attempt(number));
        let (document, input) = (document.clone(), job.input.clone());
        async move { extraction::run_job_item(&resources, &principal, &run, &document, &input, steps, None).await }
    };
    assert_eq!(run(1, steps.clone()).await.unwrap_err().reason, Reason::ModelTimeout);
    let Some(Steps { done: 1, total }) = *progress.borrow() else { panic!("{progress:?}") };
    assert!(total > 1, "{total}");
    for _ in 1..total {
        test.models.answer(r#"{"total": 957.5}"#);
    }
    let result = outcome(run(2, steps).await.unwrap());
    assert_eq!(*progress.borrow(), Some(Steps { done: total, total }));
    assert_eq!(test.models.requests().len(), total as usize + 1, "the first window is not paid again");
    let stored = test.extraction(&result["extraction_id"].as_str().unwrap().parse().unwrap()).await;
    assert_eq!((&stored.original, stored.report.coverage.windows), (&json!({ "total": 957.5 }), total));
}
