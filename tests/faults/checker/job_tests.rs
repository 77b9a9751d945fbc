//! Tests of the checks of jobs, proposals and orphans: each violation, and evidence without violations.

use std::collections::BTreeMap;
use std::time::Duration;

use folio_credit::{Account, LedgerRow};
use folio_history::job::{ItemOutcome, ItemState, JobItem, JobPage, JobPages, JobState, NewJob, WaitReason};
use folio_history::journal::{Entry, Intent};
use folio_history::thread::NewThread;
use folio_types::op::{Expected, OpKey, OpResult, OpRow, OpState, Target};
use folio_types::profile::Subject;
use folio_types::{
    BlockId, CallId, Digest, DocumentId, Error, ExtractionId, JobId, OrgId, Principal, PromptId, ProposalId, Reason,
    Role, SchemaId, ThreadId, Timestamp, TurnId, UserId,
};
use serde_json::{Value, json};

use super::Invariant::{EffectsOnce, JobEnd, OneWriter, Orphan, Spend, Stored};
use super::*;
use crate::faults::log::{ClientEvent, Logged};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

fn org() -> OrgId {
    OrgId::derive(&["org"])
}

fn user() -> UserId {
    UserId::derive(&["user"])
}

fn document(name: &str) -> String {
    DocumentId::derive(&[name]).to_string()
}

fn extraction(name: &str) -> String {
    ExtractionId::derive(&[name]).to_string()
}

fn revision() -> String {
    format!("{}.1", PromptId::derive(&["prompt"]))
}

fn thread() -> ThreadId {
    ThreadId::derive(&["run"])
}

/// Numbers of the jobs in the evidence.
const BATCH: usize = 0;
const PROPOSING: usize = 1;

/// Returns a completed job whose items were done by their first attempt.
fn job(name: &str, kind: &str, input: Value, items: &[String]) -> ObservedJob {
    let new = NewJob {
        id: JobId::derive(&[name]),
        principal: Principal::new(org(), user(), Role::Member),
        kind: kind.to_owned(),
        input,
        items: items.to_vec(),
        running_max: Duration::from_secs(60),
        at: at(0),
    };
    let mut header = new.header().unwrap();
    (header.epoch, header.version, header.state) = (1, 6, JobState::Completed);
    (header.updated_at, header.ended_at) = (at(5), Some(at(5)));
    for item in &mut header.items {
        (item.state, item.attempt) = (ItemState::Done, 1);
    }
    ObservedJob {
        org: org(),
        id: header.id.clone(),
        epoch: 1,
        version: 6,
        header,
        outcomes: Vec::new(),
        batches: 6,
        pages: BTreeMap::new(),
        is_indexed: false,
    }
}

fn outcome(item: u32, value: Value) -> (u32, ItemOutcome) {
    (item, ItemOutcome { item, attempt: 1, value, at: at(4) })
}

fn op(op: OpKey) -> OpRow {
    let state = OpState::Done(OpResult::Resource { id: String::new(), name: String::new() });
    OpRow { op, digest: Digest::of(b""), state, at: at(4) }
}

fn requested(request: &str) -> OpRow {
    op(OpKey::Request { user: user(), request: request.parse().unwrap() })
}

fn called() -> OpRow {
    op(OpKey::Call(CallId::new(TurnId::new(thread(), 1), 1, 1)))
}

fn resource(id: &str, live: Value, ops: Vec<OpRow>) -> ObservedAggregate {
    ObservedAggregate {
        org: org().to_string(),
        id: id.to_owned(),
        version: Some(1),
        is_live: !live.is_null(),
        live,
        ops,
        ..ObservedAggregate::default()
    }
}

fn extracted(name: &str, of: &str, request: OpRow) -> ObservedAggregate {
    resource(&extraction(name), json!({ "document": document(of), "prompt": revision() }), vec![request])
}

fn intent(target: &str) -> Entry {
    let (arguments, resolved) = (None, Value::Null);
    let target = Target::new("resource", target);
    Entry::Intent(Intent {
        turn: 1,
        round: 1,
        index: 1,
        target,
        expected: Expected::Absent,
        arguments,
        resolved,
        at: None,
    })
}

fn schema() -> String {
    SchemaId::derive(&["of the run"]).to_string()
}

fn proposal() -> ProposalId {
    ProposalId::derive(&["proposal"])
}

/// Returns the hidden thread of a run, which created a schema and the extraction `c`.
fn hidden() -> ObservedThread {
    let principal = Principal::new(org(), user(), Role::Member);
    let documents = vec![DocumentId::derive(&["auto"])];
    let new = NewThread {
        subject: Some(Subject::Proposal(proposal())),
        ephemeral: true,
        ..NewThread::new(thread(), &principal, "auto_create", documents, at(0))
    };
    ObservedThread {
        org: org(),
        id: thread(),
        epoch: 1,
        version: 1,
        header: new.header(),
        entries: vec![(0, intent(&schema())), (1, intent(&extraction("c")))],
        batches: 1,
        requests: Vec::new(),
    }
}

/// Returns a batch over two documents, and an upload for which an agent made a proposal.
fn good() -> Evidence {
    let mut batch = job("batch", "extraction", json!({ "prompt": revision() }), &[document("1"), document("2")]);
    let named = |name: &str| json!({ "extraction_id": extraction(name) });
    batch.outcomes = vec![outcome(1, named("a")), outcome(2, named("b"))];
    let mut proposing = job("auto", "auto_create", json!({ "at": at(0) }), &[document("auto")]);
    proposing.outcomes = vec![outcome(1, json!({ "proposal_id": proposal(), "state": "proposed" }))];
    let item = |number: u32| requested(&format!("{}.{number}", batch.id));
    let mut aggregates: Vec<_> = ["1", "2", "auto"].map(|name| resource(&document(name), json!({}), vec![])).into();
    let resources = json!({ "schema": format!("{}.1", schema()), "prompt": revision(), "extraction": extraction("c") });
    let proposed =
        json!({ "document": document("auto"), "state": "proposed", "resources": resources, "thread": thread() });
    aggregates.extend([
        extracted("a", "1", item(1)),
        extracted("b", "2", item(2)),
        extracted("c", "auto", called()),
        resource(PromptId::derive(&["prompt"]).as_str(), json!({ "latest": { "tags": [] } }), vec![]),
        resource(&schema(), json!({}), vec![called()]),
        resource(proposal().as_str(), proposed, vec![]),
    ]);
    let requested = ClientEvent::Batch {
        job: batch.id.to_string(),
        prompt: revision(),
        documents: vec![document("1"), document("2")],
    };
    let ended = ClientEvent::JobEnded { job: batch.id.to_string(), state: "completed" };
    let log = [requested, ended, ClientEvent::AutoCreate { document: document("auto") }];
    Evidence {
        threads: vec![hidden()],
        aggregates,
        jobs: vec![batch, proposing],
        log: log.map(|event| Logged { org: org(), event }).into(),
        taken_at: at(10),
        ..Evidence::default()
    }
}

fn violations(evidence: &Evidence) -> Vec<Violation> {
    let mut findings = Findings::default();
    jobs::check(evidence, &mut findings);
    orphans::check(evidence, &mut findings);
    proposals::check(evidence, &mut findings);
    findings.0
}

/// Checks that a change of the good evidence is reported.
#[track_caller]
fn changed(change: impl FnOnce(&mut Evidence), invariant: Invariant, reason: &str) {
    let mut evidence = good();
    change(&mut evidence);
    let found = violations(&evidence);
    let is_found = found.iter().any(|one| one.invariant == invariant && one.reason.contains(reason));
    assert!(is_found, "{reason}: {found:#?}");
}

#[track_caller]
fn permitted(change: impl FnOnce(&mut Evidence)) {
    let mut evidence = good();
    change(&mut evidence);
    assert_eq!(violations(&evidence), []);
}

fn find<'a>(evidence: &'a mut Evidence, id: &str) -> &'a mut ObservedAggregate {
    evidence.aggregates.iter_mut().find(|one| one.id == id).unwrap()
}

fn delete(evidence: &mut Evidence, id: &str) {
    let found = find(evidence, id);
    (found.is_live, found.live) = (false, Value::Null);
}

fn log(evidence: &mut Evidence, event: ClientEvent) {
    evidence.log.push(Logged { org: org(), event });
}

#[test]
fn a_completed_batch_and_a_proposal_have_no_violation() {
    permitted(|_| {});
}

#[test]
fn invariant_1_a_lost_write_of_a_job_and_a_second_writer_are_found() {
    changed(|evidence| evidence.jobs[BATCH].batches = 7, OneWriter, "7 writes of the job are committed");
    changed(
        |evidence| evidence.jobs[BATCH].header.version = 5,
        OneWriter,
        "the header of the job has the fence (1, 5)",
    );
}

#[test]
fn a_job_that_did_not_end_once_is_found() {
    let state = |state: JobState, ended: Option<i64>| {
        move |evidence: &mut Evidence| {
            evidence.log.clear();
            let header = &mut evidence.jobs[BATCH].header;
            (header.state, header.ended_at) = (state, ended.map(at));
        }
    };
    let waiting = |second| JobState::Waiting { reason: WaitReason::Credit, error: None, retry_at: at(second) };
    changed(state(JobState::Running, None), JobEnd, "runs or is queued after the end of all work");
    changed(state(JobState::Queued, None), JobEnd, "runs or is queued after the end of all work");
    changed(state(waiting(10), None), JobEnd, "although its time has come");
    permitted(state(waiting(11), None));
    permitted(state(JobState::Paused, None));
    changed(state(JobState::Completed, None), JobEnd, "contradicts the time of its end");
    changed(state(JobState::Paused, Some(5)), JobEnd, "contradicts the time of its end");
    changed(|evidence| evidence.jobs[BATCH].is_indexed = true, JobEnd, "the index of open jobs has a row");
    let item = |state: ItemState| move |evidence: &mut Evidence| evidence.jobs[BATCH].header.items[1].state = state;
    changed(item(ItemState::Running), JobEnd, "but an item runs");
    changed(item(ItemState::Pending), JobEnd, "not all of its items have ended");
    // A waiting job may start again while the tables are read.
    permitted(|evidence| {
        state(JobState::Running, None)(evidence);
        evidence.jobs[BATCH].header.updated_at = at(11);
    });
}

#[test]
fn invariant_3_the_row_of_another_document_or_stack_is_found() {
    let filled = |row: Value| {
        move |evidence: &mut Evidence| {
            let mut filling = job("filling", "stack_fill", json!({ "stack": "stack" }), &[document("1")]);
            filling.outcomes = vec![outcome(1, json!({ "stack_row_id": "row" }))];
            evidence.jobs.push(filling);
            evidence.aggregates.push(resource("row", row, vec![]));
        }
    };
    let row = |of: &str, stack: &str| json!({ "document": document(of), "stack": stack });
    permitted(filled(row("1", "stack")));
    changed(filled(row("2", "stack")), EffectsOnce, "not that of the item");
    changed(filled(row("1", "other")), EffectsOnce, "not that of the item");
    changed(
        |evidence| {
            filled(row("1", "stack"))(evidence);
            evidence.aggregates.pop();
        },
        Stored,
        "was never stored",
    );
}

#[test]
fn invariant_3_an_item_without_exactly_one_result_is_found() {
    let outcomes = |change: fn(&mut Vec<(u32, ItemOutcome)>)| {
        move |evidence: &mut Evidence| change(&mut evidence.jobs[BATCH].outcomes)
    };
    let e = EffectsOnce;
    changed(outcomes(|found| drop(found.pop())), e, "the item is done and has 0 outcomes");
    changed(outcomes(|found| found.push(found[1].clone())), e, "the item is done and has 2 outcomes");
    changed(outcomes(|found| found[0].1.attempt = 2), e, "is not that of its last attempt");
    changed(outcomes(|found| found[0].0 = 2), e, "the number of another item");
    changed(outcomes(|found| found.push(outcome(3, Value::Null))), e, "which it does not have");
    changed(outcomes(|found| found[0].1.value = json!({})), e, "names nothing");
    changed(
        outcomes(|found| found[0].1.value = json!({ "extraction_id": extraction("b") })),
        e,
        "not that of the item",
    );
    let missing = json!({ "extraction_id": extraction("missing") });
    changed(|evidence| evidence.jobs[BATCH].outcomes[0].1.value = missing, Stored, "was never stored");
    permitted(|evidence| delete(evidence, &extraction("a")));
    // A failed item keeps the record of its last attempt.
    permitted(|evidence| {
        let failed = ItemState::Failed(Error::unavailable(Reason::NodeLost, "lost"));
        evidence.jobs[BATCH].header.items[1].state = failed;
        evidence.aggregates.retain(|one| one.id != extraction("b"));
    });
}

#[test]
fn invariant_3_two_extractions_of_one_item_or_one_tag_are_found() {
    let second = |request: &'static str| {
        move |evidence: &mut Evidence| {
            let item = format!("{}.1", evidence.jobs[BATCH].id);
            let request = requested(if request.is_empty() { &item } else { request });
            find(evidence, &extraction("a")).ops = vec![request.clone()];
            evidence.aggregates.push(extracted("second", "1", request));
        }
    };
    changed(second(""), EffectsOnce, "the item has the extractions");
    changed(second("tag-run.1"), EffectsOnce, "two extractions of one document");
}

#[test]
fn invariant_5_a_model_call_that_no_attempt_began_is_found() {
    let called = |key: &str| {
        let key = key.replace("BATCH", JobId::derive(&["batch"]).as_str());
        let key = key.replace("MISSING", JobId::derive(&["missing"]).as_str());
        move |evidence: &mut Evidence| {
            let request = ObservedModelRequest { key: Some(key), body: Value::Null, is_refused: false };
            evidence.model_requests = Some(vec![request]);
        }
    };
    for key in ["BATCH.1.1.1.1", "BATCH.2.1.1.4", "thr_1.1.1"] {
        permitted(called(key));
    }
    changed(called("MISSING.1.1.1.1"), Spend, "of a job that does not exist");
    for key in ["BATCH.1.1.2.1", "BATCH.1.2.1.1", "BATCH.3.1.1.1"] {
        changed(called(key), Spend, "that its job did not begin");
    }
    let charged = |evidence: &mut Evidence| {
        let key = format!("{}.1.1.2.1", evidence.jobs[BATCH].id);
        let row = LedgerRow::new(&key, user(), 5, at(1));
        let ledgers = [(BlockId::derive(&["block"]), vec![row])].into();
        evidence.accounts = vec![ObservedAccount { org: org(), account: Account::default(), entries: vec![], ledgers }];
    };
    changed(charged, Spend, "that its job did not begin");
}

#[test]
fn an_acknowledged_batch_that_differs_from_the_stored_job_is_found() {
    changed(|evidence| drop(evidence.jobs.remove(BATCH)), Stored, "the batch was acknowledged, but is missing");
    let other = |change: fn(&mut ObservedJob)| move |evidence: &mut Evidence| change(&mut evidence.jobs[BATCH]);
    changed(other(|job| job.header.items.swap(0, 1)), Stored, "other items or another prompt");
    changed(other(|job| job.header.input["prompt"] = json!("prm_other.1")), Stored, "other items or another prompt");
    changed(other(|job| job.header.state = JobState::Cancelled), JobEnd, "a client saw the end \"completed\"");
}

#[test]
fn the_items_of_all_pages_are_read_in_order_and_the_header_is_newer_than_a_stored_page() {
    let mut job = job("pages", "extraction", json!({}), &["current".to_owned()]);
    job.header.pages = Some(JobPages { items: 201, current: 1, ..JobPages::default() });
    let page = |id: &str, state| JobItem { id: id.to_owned(), state, attempt: 1, failures: 0, steps: None };
    let stored = [("first", ItemState::Done), ("old", ItemState::Pending), ("last", ItemState::Pending)];
    job.pages = (0..).zip(stored.map(|(id, state)| JobPage { items: vec![page(id, state)] })).collect();
    let found: Vec<_> = jobs::items(&job).map(|(number, item)| (number, item.id.as_str())).collect();
    assert_eq!(found, [(1, "first"), (101, "current"), (201, "last")]);
}

#[test]
fn an_extraction_that_no_job_names_or_completes_is_found() {
    let o = Orphan;
    let stored = |request: String| {
        move |evidence: &mut Evidence| evidence.aggregates.push(extracted("orphan", "1", requested(&request)))
    };
    let item = |job: &str, number: u32| format!("{}.{number}", JobId::derive(&[job]));
    changed(stored(item("missing", 1)), o, "which does not exist");
    changed(stored(item("batch", 3)), o, "has no item 3");
    changed(stored(item("batch", 1)), o, "names another result");
    changed(stored("auto-create-extract-ppl_0".to_owned()), o, "which does not name it");
    permitted(stored("request-of-a-client".to_owned()));
    let unattempted = |evidence: &mut Evidence| {
        let item = &mut evidence.jobs[BATCH].header.items[0];
        (item.state, item.attempt) = (ItemState::Pending, 0);
    };
    changed(unattempted, o, "never began");
    let by_tag = |input: Value| {
        move |evidence: &mut Evidence| {
            find(evidence, &extraction("a")).ops = vec![requested("tag-run.1")];
            evidence.jobs[BATCH].header.input = input;
            evidence.log.clear();
        }
    };
    permitted(by_tag(json!({ "prompt": revision(), "tag_run": { "at": at(0), "write": "text" } })));
    changed(by_tag(json!({ "prompt": revision() })), o, "no job runs its prompt on its document");
    let in_progress = |is_open: bool| {
        move |evidence: &mut Evidence| {
            find(evidence, &extraction("a")).live["agent"] = json!({ "state": "in_progress" });
            let header = &mut evidence.jobs[BATCH].header;
            if is_open {
                (header.state, header.ended_at) = (JobState::Paused, None);
                evidence.log.clear();
            }
        }
    };
    permitted(in_progress(true));
    changed(in_progress(false), o, "and no open job works on it");
    // The clean-up deletes it with its document.
    permitted(|evidence| {
        in_progress(false)(evidence);
        delete(evidence, &document("1"));
    });
}

#[test]
fn a_hidden_thread_without_its_proposal_is_found() {
    let reason = "is not the log of the proposal";
    changed(|evidence| evidence.aggregates.retain(|one| !one.id.starts_with("ppl_")), Orphan, reason);
    let other = |evidence: &mut Evidence| find(evidence, proposal().as_str()).live["thread"] = json!("thr_other");
    changed(other, Orphan, reason);
    // The run has not finished.
    permitted(|evidence| {
        evidence.aggregates.retain(|one| !one.id.starts_with("ppl_"));
        let header = &mut evidence.jobs[PROPOSING].header;
        (header.state, header.ended_at) = (JobState::Paused, None);
        (header.items[0].state, header.items[0].attempt) = (ItemState::Pending, 1);
        evidence.jobs[PROPOSING].outcomes.clear();
    });
    let agent = |evidence: &mut Evidence| {
        let mut thread = hidden();
        thread.id = ThreadId::derive(&["agent"]);
        thread.header.subject = Some(Subject::Extraction(ExtractionId::derive(&["a"])));
        evidence.threads.push(thread);
    };
    changed(agent, Orphan, "the hidden thread does not expire");
}

#[test]
fn a_second_proposal_and_a_proposal_without_its_resources_are_found() {
    let second = |evidence: &mut Evidence| {
        let proposal = find(evidence, proposal().as_str()).clone();
        evidence.aggregates.push(ObservedAggregate { id: ProposalId::derive(&["second"]).to_string(), ..proposal });
    };
    changed(second, EffectsOnce, "the document has the proposals");
    changed(second, EffectsOnce, "the upload requested a proposal, and there are 2");
    changed(|evidence| delete(evidence, &schema()), Stored, "the proposal is in use, and");
    changed(|evidence| evidence.threads.clear(), Stored, "the log of the proposal is missing");
}

#[test]
fn a_resource_that_a_run_created_and_nothing_uses_is_found() {
    let rejected = |evidence: &mut Evidence| find(evidence, proposal().as_str()).live["state"] = json!("rejected");
    changed(rejected, Orphan, "and nothing uses it");
    permitted(|evidence| {
        rejected(evidence);
        delete(evidence, &extraction("c"));
        delete(evidence, &schema());
    });
    permitted(|evidence| {
        rejected(evidence);
        delete(evidence, &extraction("c"));
        let prompt = PromptId::derive(&["prompt"]).to_string();
        find(evidence, &prompt).live["latest"]["schema"] = json!(format!("{}.1", schema()));
    });
    let acknowledged = |evidence: &mut Evidence| {
        rejected(evidence);
        log(evidence, ClientEvent::Rejected { proposal: proposal().to_string() });
    };
    changed(acknowledged, Orphan, "the proposal was rejected, and its extraction exists");
}

#[test]
fn acknowledged_changes_of_documents_without_their_effects_are_found() {
    changed(|evidence| drop(evidence.jobs.remove(PROPOSING)), Stored, "and no job makes one");
    let none = |evidence: &mut Evidence| {
        evidence.aggregates.retain(|one| !one.id.starts_with("ppl_"));
        evidence.threads.clear();
    };
    changed(none, EffectsOnce, "the upload requested a proposal, and there are 0");
    let tagged = || ClientEvent::Tagged { document: document("1"), prompt: revision() };
    changed(|evidence| log(evidence, tagged()), Stored, "0 jobs ran it without an effect");
    let run = |value: Value| {
        move |evidence: &mut Evidence| {
            evidence.jobs[BATCH].header.input["tag_run"] = json!({ "at": at(0), "write": "text" });
            evidence.jobs[BATCH].outcomes[0].1.value = value.clone();
            evidence.jobs[BATCH].outcomes[1].1.value = value;
            log(evidence, tagged());
        }
    };
    changed(run(json!({ "skipped": "the document has no text" })), Stored, "1 jobs ran it without an effect");
    permitted(|evidence| {
        evidence.jobs[BATCH].header.input["tag_run"] = json!({ "at": at(0), "write": "text" });
        log(evidence, tagged());
    });
    let deleted = |evidence: &mut Evidence| log(evidence, ClientEvent::Deleted { id: document("1") });
    changed(deleted, Stored, "the deletion was acknowledged");
    permitted(|evidence| {
        deleted(evidence);
        delete(evidence, &document("1"));
    });
}
