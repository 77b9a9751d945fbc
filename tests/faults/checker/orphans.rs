//! Orphans: an extraction that no job names, or that no job completes; a hidden thread whose run left no proposal.
//!
//! The clean-up deletes the dependents of a deleted document some time later, so they are not checked.

use folio_history::job::{ItemState, JobState};
use folio_types::profile::Subject;

use super::Invariant::Orphan;
use super::jobs::{AGENT, AUTO_CREATE, EXTRACTION, items, requests, results};
use super::{Evidence, Findings, ObservedAggregate, ObservedJob, ObservedThread};

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    for extraction in live(evidence, "ext_") {
        if is_live(evidence, extraction.live["document"].as_str()) {
            check_extraction(extraction, evidence, findings);
        }
    }
    for thread in evidence.threads.iter().filter(|thread| thread.header.ephemeral) {
        check_thread(thread, evidence, findings);
    }
}

/// Returns the live resources whose ids have this prefix.
pub(super) fn live<'a>(evidence: &'a Evidence, prefix: &'a str) -> impl Iterator<Item = &'a ObservedAggregate> {
    evidence.aggregates.iter().filter(move |one| one.is_live && one.id.starts_with(prefix))
}

pub(super) fn is_live(evidence: &Evidence, id: Option<&str>) -> bool {
    id.is_some_and(|id| evidence.aggregates.iter().any(|one| one.is_live && one.id == id))
}

pub(super) fn is_open(job: &ObservedJob) -> bool {
    job.header.ended_at.is_none()
}

/// Returns the jobs that make proposals for a document.
pub(super) fn proposing<'a>(evidence: &'a Evidence, document: &'a str) -> impl Iterator<Item = &'a ObservedJob> {
    let is_of =
        move |job: &&ObservedJob| job.header.kind == AUTO_CREATE && items(job).any(|(_, item)| item.id == document);
    evidence.jobs.iter().filter(is_of)
}

fn check_extraction(extraction: &ObservedAggregate, evidence: &Evidence, findings: &mut Findings) {
    if extraction.live["agent"]["state"] == "in_progress"
        && !evidence.jobs.iter().any(|job| is_open(job) && may_work_on(job, extraction))
    {
        findings.add(Orphan, &extraction.id, "the extraction is in progress, and no open job works on it");
    }
    for request in requests(extraction) {
        if let Some(reason) = orphaned(request, extraction, evidence) {
            findings.add(Orphan, &extraction.id, reason);
        }
    }
}

/// Returns true if an item of the job is the extraction, or the document of the extraction with the same prompt.
fn may_work_on(job: &ObservedJob, extraction: &ObservedAggregate) -> bool {
    let has_item = |id: &str| items(job).any(|(_, item)| item.id == id);
    match job.header.kind.as_str() {
        AGENT => has_item(&extraction.id),
        EXTRACTION => {
            job.header.input["prompt"] == extraction.live["prompt"]
                && extraction.live["document"].as_str().is_some_and(has_item)
        }
        _ => false,
    }
}

/// Returns the reason for which a write of a job to an extraction makes it an orphan. None: the job names the extraction, or it
/// was stopped after the write; or the request is that of a client.
fn orphaned(request: &str, extraction: &ObservedAggregate, evidence: &Evidence) -> Option<String> {
    if let Some((id, number)) = request.split_once('.').filter(|(id, _)| id.starts_with("job_")) {
        let Some(job) = evidence.jobs.iter().find(|job| job.id.as_str() == id) else {
            return Some(format!("an item of the job {id} stored it, which does not exist"));
        };
        let number: u32 = number.parse().ok()?;
        let item = items(job).find(|(at, _)| *at == number).map(|(_, item)| item);
        return match item {
            None => Some(format!("the job {id} stored it and has no item {number}")),
            Some(item) if item.attempt == 0 => {
                Some(format!("the item {number} of the job {id} stored it and never began"))
            }
            Some(item) if item.state == ItemState::Done => {
                let is_named =
                    results(job).get(&number).is_some_and(|value| value["extraction_id"] == extraction.id.as_str());
                (!is_named).then(|| format!("the item {number} of the job {id} stored it and names another result"))
            }
            // A cancelled job may leave the result of an item in progress, and an item that failed after its write its own.
            Some(_) => None,
        };
    }
    if request.starts_with("tag-run.") {
        let is_run = |job: &ObservedJob| !job.header.input["tag_run"].is_null() && may_work_on(job, extraction);
        let is_known = evidence.jobs.iter().any(is_run);
        return (!is_known).then(|| "a run by a tag stored it, and no job runs its prompt on its document".to_owned());
    }
    if let Some(id) = request.strip_prefix("auto-create-extract-") {
        let proposal = evidence.aggregates.iter().find(|one| one.id == id && one.version.is_some());
        let document = extraction.live["document"].as_str().unwrap_or_default();
        let is_stopped = |job: &ObservedJob| job.header.state != JobState::Completed;
        let is_named = proposal.is_some_and(|proposal| {
            !proposal.is_live || proposal.live["resources"]["extraction"] == extraction.id.as_str()
        });
        let is_orphan = !is_named && !proposing(evidence, document).any(is_stopped);
        return is_orphan.then(|| format!("it was stored for the proposal {id}, which does not name it"));
    }
    None
}

/// Checks that a hidden thread is the log of a proposal, or expires.
fn check_thread(thread: &ObservedThread, evidence: &Evidence, findings: &mut Findings) {
    let header = &thread.header;
    let Some(Subject::Proposal(id)) = &header.subject else {
        let reason = "the hidden thread does not expire";
        return findings.add_unless(header.expires_at.is_some(), Orphan, &thread.id, reason);
    };
    let document = header.documents.first().map(|id| id.as_str());
    if !is_live(evidence, document) {
        return;
    }
    let proposal = evidence.aggregates.iter().find(|one| one.id == id.as_str() && one.version.is_some());
    let is_log = match proposal {
        Some(proposal) => !proposal.is_live || proposal.live["thread"] == thread.id.as_str(),
        None => proposing(evidence, document.unwrap_or_default()).any(is_open),
    };
    findings.add_unless(is_log, Orphan, &thread.id, format!("the hidden thread is not the log of the proposal {id}"));
}
