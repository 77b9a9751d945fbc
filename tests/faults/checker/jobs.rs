//! Jobs: each ends once, under one owner at a time, and each of its items has exactly one result.

use std::collections::{BTreeMap, BTreeSet};

use folio_history::job::{ItemState, JobHeader, JobItem, JobState};
use folio_types::limits::JOB_PAGE_ITEMS;
use folio_types::op::{OpKey, OpState};
use folio_types::{JobId, Timestamp};
use serde_json::Value;

use super::Invariant::{EffectsOnce, JobEnd, OneWriter, Spend, Stored};
use super::{Evidence, Findings, ObservedAggregate, ObservedJob};
use crate::faults::log::ClientEvent;

/// Kinds of jobs.
pub(super) const EXTRACTION: &str = "extraction";
pub(super) const AGENT: &str = "extraction_agent";
pub(super) const AUTO_CREATE: &str = "auto_create";
pub(super) const STACK_FILL: &str = "stack_fill";

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    for job in &evidence.jobs {
        check_writes(job, findings);
        check_end(job, evidence.taken_at, findings);
        check_items(job, evidence, findings);
    }
    check_effects(evidence, findings);
    check_calls(evidence, findings);
    check_acknowledged(evidence, findings);
}

/// Returns the items of all pages with their numbers, from 1. Omits pages that are not stored.
pub(super) fn items(job: &ObservedJob) -> impl Iterator<Item = (u32, &JobItem)> {
    let mut pages: BTreeMap<u32, &[JobItem]> = BTreeMap::new();
    pages.extend(job.pages.iter().map(|(number, page)| (*number, page.items.as_slice())));
    // The stored copy of the current page is older.
    pages.insert(job.header.pages.as_ref().map_or(0, |pages| pages.current), &job.header.items);
    pages.into_iter().flat_map(|(page, items)| {
        let first = page * u32::try_from(JOB_PAGE_ITEMS).expect("a small number") + 1;
        (first..).zip(items)
    })
}

/// Returns the number of items of all pages.
fn item_count(header: &JobHeader) -> usize {
    header.pages.as_ref().map_or(header.items.len(), |pages| pages.items as usize)
}

/// Returns the result of each item that is done, by the number of the item.
pub(super) fn results(job: &ObservedJob) -> BTreeMap<u32, &Value> {
    let done: BTreeSet<u32> = items(job).filter(|(_, item)| item.state == ItemState::Done).map(|(at, _)| at).collect();
    let outcomes = job.outcomes.iter().filter(|(number, _)| done.contains(number));
    outcomes.map(|(number, outcome)| (*number, &outcome.value)).collect()
}

/// Checks that each write was conditional on the one before.
fn check_writes(job: &ObservedJob, findings: &mut Findings) {
    let mut add = |reason: String| findings.add(OneWriter, &job.id, reason);
    let ObservedJob { header, epoch, version, .. } = job;
    if (header.epoch, header.version) != (*epoch, *version) {
        let stored = (header.epoch, header.version);
        add(format!("the header of the job has the fence {stored:?}, the columns have {:?}", (epoch, version)));
    }
    if job.batches != *version {
        add(format!("{} writes of the job are committed, but its version is {version}", job.batches));
    }
}

/// Checks that the job has ended, or waits for a user or for a later time, and that its state fits its items.
fn check_end(job: &ObservedJob, taken_at: Timestamp, findings: &mut Findings) {
    let mut add = |reason: &str| findings.add(JobEnd, &job.id, format!("the {} {reason}", job.header.kind));
    let header = &job.header;
    let has_ended = match &header.state {
        JobState::Completed | JobState::Failed(_) | JobState::Cancelled => true,
        JobState::Queued | JobState::Running if header.updated_at <= taken_at => {
            add("job runs or is queued after the end of all work");
            false
        }
        JobState::Waiting { retry_at, .. } if *retry_at <= taken_at => {
            add("job waits although its time has come");
            false
        }
        _ => false,
    };
    if has_ended != header.ended_at.is_some() {
        add("job has a state that contradicts the time of its end");
    }
    if has_ended && job.is_indexed {
        add("job has ended, but the index of open jobs has a row of it");
    }
    if has_ended && items(job).any(|(_, item)| item.state == ItemState::Running) {
        add("job has ended, but an item runs");
    }
    if header.state == JobState::Completed {
        let ended = items(job).filter(|(_, item)| is_ended(item)).count();
        if ended != item_count(header) {
            add("job is completed, but not all of its items have ended");
        }
    }
}

fn is_ended(item: &JobItem) -> bool {
    matches!(item.state, ItemState::Done | ItemState::Failed(_))
}

/// Checks that each item that is done has one outcome, which names a stored result of its subject.
fn check_items(job: &ObservedJob, evidence: &Evidence, findings: &mut Findings) {
    let mut outcomes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (number, outcome) in &job.outcomes {
        outcomes.entry(outcome.item).or_default().push(outcome.attempt);
        let reason = "the row of an outcome has the number of another item";
        findings.add_unless(*number == outcome.item, EffectsOnce, &job.id, reason);
    }
    for (number, item) in items(job) {
        let subject = format!("{}.{number}", job.id);
        let attempts = outcomes.remove(&number).unwrap_or_default();
        match (&item.state, attempts.as_slice()) {
            (ItemState::Done, [attempt]) if *attempt == item.attempt => {}
            (ItemState::Done, [_]) => {
                findings.add(EffectsOnce, subject, "the outcome of the item is not that of its last attempt");
            }
            (ItemState::Done, attempts) => {
                let reason = format!("the item is done and has {} outcomes", attempts.len());
                findings.add(EffectsOnce, subject, reason);
            }
            _ => {}
        }
    }
    if let Some(number) = outcomes.keys().next() {
        findings.add(
            EffectsOnce,
            &job.id,
            format!("the job has an outcome of the item {number}, which it does not have"),
        );
    }
    for (number, value) in results(job) {
        let Some((_, item)) = items(job).find(|(at, _)| *at == number) else { continue };
        check_result(job, (number, item), value, evidence, findings);
    }
}

/// Checks the result of an item that is done.
fn check_result(
    job: &ObservedJob,
    (number, item): (u32, &JobItem),
    value: &Value,
    evidence: &Evidence,
    findings: &mut Findings,
) {
    let subject = format!("{}.{number}", job.id);
    let field = match job.header.kind.as_str() {
        AUTO_CREATE => "proposal_id",
        STACK_FILL => "stack_row_id",
        EXTRACTION | AGENT => "extraction_id",
        _ => return,
    };
    if value.get("skipped").is_some() {
        return;
    }
    let Some(id) = value[field].as_str() else {
        return findings.add(EffectsOnce, subject, format!("the result of the item names nothing: {value}"));
    };
    let found = evidence.aggregates.iter().find(|one| one.id == id && one.org == job.org.as_str());
    let Some(found) = found.filter(|found| found.version.is_some()) else {
        return findings.add(Stored, subject, format!("the result {id} of the item was never stored"));
    };
    if !found.is_live {
        return;
    }
    let is_of_item = match job.header.kind.as_str() {
        AGENT => item.id == id,
        EXTRACTION => found.live["document"] == item.id && found.live["prompt"] == job.header.input["prompt"],
        STACK_FILL => found.live["document"] == item.id && found.live["stack"] == job.header.input["stack"],
        _ => found.live["document"] == item.id,
    };
    findings.add_unless(is_of_item, EffectsOnce, subject, format!("the result {id} is not that of the item"));
}

/// Checks that no item, and no pair of a document and a prompt revision with a common tag, has two extractions.
fn check_effects(evidence: &Evidence, findings: &mut Findings) {
    let mut by_item: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    let mut by_tag: BTreeMap<(&str, String), &str> = BTreeMap::new();
    for extraction in evidence.aggregates.iter().filter(|one| one.id.starts_with("ext_")) {
        for request in requests(extraction) {
            let key = (extraction.org.as_str(), request);
            if request.starts_with("job_")
                && let Some(other) = by_item.insert(key, &extraction.id)
            {
                let reason = format!("the item has the extractions {other} and {}", extraction.id);
                findings.add(EffectsOnce, request, reason);
            }
            // No client lets a document be read again, so each document has one text.
            let of_text = format!("{} {}", extraction.live["document"], extraction.live["prompt"]);
            if request.starts_with("tag-run.")
                && extraction.is_live
                && let Some(other) = by_tag.insert((extraction.org.as_str(), of_text), &extraction.id)
            {
                let reason = "two extractions of one document by one prompt revision with a common tag";
                findings.add(EffectsOnce, &extraction.id, format!("{reason}: the other is {other}"));
            }
        }
    }
}

/// Returns the requests of the writes to a resource that are done.
pub(super) fn requests(aggregate: &ObservedAggregate) -> impl Iterator<Item = &str> {
    aggregate.ops.iter().filter(|row| matches!(row.state, OpState::Done(_))).filter_map(|row| match &row.op {
        OpKey::Request { request, .. } => Some(request.as_str()),
        OpKey::Call(_) => None,
    })
}

/// Checks that each model call of a job belongs to an attempt that the job has begun. The ledgers show elsewhere that each is
/// charged once.
fn check_calls(evidence: &Evidence, findings: &mut Findings) {
    let jobs: BTreeMap<&str, &ObservedJob> = evidence.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
    let received = evidence.model_requests.iter().flatten().filter_map(|request| request.key.as_deref());
    let ledgers = evidence.accounts.iter().flat_map(|account| account.ledgers.values().flatten());
    let keys: BTreeSet<&str> = received.chain(ledgers.map(|row| row.key.as_str())).collect();
    for key in keys {
        let Some((id, item, epoch, attempt)) = attempt_of(key) else { continue };
        let Some(job) = jobs.get(id) else {
            findings.add(Spend, key, "a model call of a job that does not exist");
            continue;
        };
        let found = items(job).find(|(number, _)| *number == item);
        let is_begun = epoch <= job.header.epoch && found.is_some_and(|(_, item)| attempt <= item.attempt);
        findings.add_unless(is_begun, Spend, key, "a model call of an attempt that its job did not begin");
    }
}

/// Returns the job, the item, the epoch and the attempt in the ledger key of a model call. None: it is not a call of a job.
fn attempt_of(key: &str) -> Option<(&str, u32, u64, u32)> {
    let mut parts = key.split('.');
    let job = parts.next().filter(|job| job.parse::<JobId>().is_ok())?;
    Some((job, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Checks that the jobs contain what was acknowledged to clients.
fn check_acknowledged(evidence: &Evidence, findings: &mut Findings) {
    let jobs: BTreeMap<&str, &ObservedJob> = evidence.jobs.iter().map(|job| (job.id.as_str(), job)).collect();
    for line in &evidence.log {
        match &line.event {
            ClientEvent::Batch { job: id, prompt, documents } => {
                let Some(job) = jobs.get(id.as_str()).filter(|job| job.org == line.org) else {
                    findings.add(Stored, id, "the batch was acknowledged, but is missing");
                    continue;
                };
                let subjects: Vec<&str> = items(job).map(|(_, item)| item.id.as_str()).collect();
                let is_same = subjects == *documents && job.header.input["prompt"] == prompt.as_str();
                findings.add_unless(is_same, Stored, id, "the batch has other items or another prompt than requested");
            }
            ClientEvent::JobEnded { job: id, state } => {
                let stored = jobs.get(id.as_str()).map(|job| end_name(&job.header.state));
                let reason = format!("a client saw the end {state:?} of the job, but {stored:?} is stored");
                findings.add_unless(stored == Some(Some(*state)), JobEnd, id, reason);
            }
            _ => {}
        }
    }
}

/// Returns the name of the state of an ended job. None: the job is open.
fn end_name(state: &JobState) -> Option<&'static str> {
    match state {
        JobState::Completed => Some("completed"),
        JobState::Failed(_) => Some("failed"),
        JobState::Cancelled => Some("cancelled"),
        JobState::Queued | JobState::Running | JobState::Waiting { .. } | JobState::Paused => None,
    }
}
