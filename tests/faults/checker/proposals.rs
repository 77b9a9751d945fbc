//! Proposals: each document with automatic creation has one, whose resources are stored; a run leaves no other resources.

use std::collections::{BTreeMap, BTreeSet};

use folio_history::job::{ItemState, JobState};
use folio_history::journal::Entry;
use folio_types::op::{Expected, OpKey, OpState};
use folio_types::profile::Subject;

use super::Invariant::{EffectsOnce, Orphan, Stored};
use super::jobs::{items, results};
use super::orphans::{is_live, is_open, live, proposing};
use super::{Evidence, Findings, ObservedAggregate, ObservedThread};
use crate::faults::log::ClientEvent;

pub(super) fn check(evidence: &Evidence, findings: &mut Findings) {
    let mut in_use: BTreeMap<&str, &str> = BTreeMap::new();
    for proposal in live(evidence, "ppl_") {
        let Some(document) = proposal.live["document"].as_str().filter(|id| is_live(evidence, Some(id))) else {
            continue;
        };
        if is_in_use(proposal) {
            if let Some(other) = in_use.insert(document, &proposal.id) {
                findings.add(
                    EffectsOnce,
                    document,
                    format!("the document has the proposals {other} and {}", proposal.id),
                );
            }
            check_resources(proposal, evidence, findings);
        }
        if let Some(thread) = proposal.live["thread"].as_str() {
            let has_log = evidence.threads.iter().any(|one| one.id.as_str() == thread);
            findings.add_unless(has_log, Stored, &proposal.id, "the log of the proposal is missing");
        }
    }
    for thread in &evidence.threads {
        check_created(thread, evidence, findings);
    }
    for line in &evidence.log {
        check_acknowledged(&line.event, evidence, findings);
    }
}

/// Returns true if the proposal is open or accepted.
fn is_in_use(proposal: &ObservedAggregate) -> bool {
    ["proposed", "accepted"].iter().any(|state| proposal.live["state"] == *state)
}

/// Returns the ids of the resources that a proposal names. A revision's id starts with that of its resource.
fn resources(proposal: &ObservedAggregate) -> BTreeSet<&str> {
    let names = ["schema", "prompt", "extraction"].map(|name| proposal.live["resources"][name].as_str());
    names.into_iter().flatten().map(resource_of).collect()
}

/// Returns the id of a resource in the id of one of its revisions.
fn resource_of(id: &str) -> &str {
    id.split_once('.').map_or(id, |(resource, _)| resource)
}

fn check_resources(proposal: &ObservedAggregate, evidence: &Evidence, findings: &mut Findings) {
    for id in resources(proposal) {
        let reason = format!("the proposal is in use, and {id} is not live");
        findings.add_unless(is_live(evidence, Some(id)), Stored, &proposal.id, reason);
    }
}

/// Checks that what the run of a proposal created is named by the proposal or in use, once the run has ended.
fn check_created(thread: &ObservedThread, evidence: &Evidence, findings: &mut Findings) {
    let Some(Subject::Proposal(id)) = &thread.header.subject else { return };
    let document = thread.header.documents.first().map_or("", |id| id.as_str());
    if !is_live(evidence, Some(document)) || proposing(evidence, document).any(is_open) {
        return;
    }
    let proposal = live(evidence, "ppl_").find(|one| one.id == id.as_str());
    let named = proposal.filter(|proposal| is_in_use(proposal)).map(resources).unwrap_or_default();
    let created = thread.entries.iter().filter_map(|(_, entry)| match entry {
        Entry::Intent(intent) if intent.expected == Expected::Absent => Some(intent.target.id()),
        _ => None,
    });
    for target in created.filter(|target| !named.contains(target)) {
        let Some(found) = evidence.aggregates.iter().find(|one| one.id == target && one.is_live) else { continue };
        let is_of_run = found.ops.iter().any(|row| {
            matches!(&row.op, OpKey::Call(call) if call.turn.thread == thread.id)
                && matches!(row.state, OpState::Done(_))
        });
        if is_of_run && !is_used(found, evidence) {
            findings.add(Orphan, target, format!("the run of the proposal {id} created it, and nothing uses it"));
        }
    }
}

/// Returns true if another live resource names this one, or if it has tags. A decided proposal that is not in use does not count.
fn is_used(one: &ObservedAggregate, evidence: &Evidence) -> bool {
    let has_tags = one.live["latest"]["tags"].as_array().is_some_and(|tags| !tags.is_empty());
    let names = |other: &ObservedAggregate| {
        let counts = !other.id.starts_with("ppl_") || is_in_use(other);
        other.is_live && other.id != one.id && counts && other.live.to_string().contains(&one.id)
    };
    has_tags || evidence.aggregates.iter().any(names)
}

fn check_acknowledged(event: &ClientEvent, evidence: &Evidence, findings: &mut Findings) {
    match event {
        ClientEvent::Deleted { id } => {
            findings.add_unless(
                !is_live(evidence, Some(id)),
                Stored,
                id,
                "the deletion was acknowledged, but the resource exists",
            );
        }
        ClientEvent::AutoCreate { document } if is_live(evidence, Some(document)) => {
            let count = live(evidence, "ppl_").filter(|one| one.live["document"] == document.as_str()).count();
            let jobs: Vec<_> = proposing(evidence, document).collect();
            // A job that a user cancelled before its run began leaves no proposal.
            let is_complete = jobs.iter().all(|job| job.header.state == JobState::Completed);
            if jobs.is_empty() {
                findings.add(Stored, document, "the upload requested a proposal, and no job makes one");
            } else if count > 1 || (is_complete && count != 1) {
                findings.add(EffectsOnce, document, format!("the upload requested a proposal, and there are {count}"));
            }
        }
        ClientEvent::Tagged { document, prompt } if is_live(evidence, Some(document)) => {
            let runs = evidence.jobs.iter().filter(|job| {
                !job.header.input["tag_run"].is_null()
                    && job.header.input["prompt"] == prompt.as_str()
                    && items(job).any(|(_, item)| item.id == *document)
            });
            // The job of a write that was repeated may find the extraction of the other job.
            let runs: Vec<_> = runs.collect();
            let mut values = runs.iter().flat_map(|job| results(job).into_values());
            let has_effect = values.any(|value| value.get("skipped").is_none());
            let is_complete = runs.iter().flat_map(|job| items(job)).all(|(_, item)| item.state == ItemState::Done);
            let reason =
                format!("the document has a tag of {prompt}, and {} jobs ran it without an effect", runs.len());
            findings.add_unless(has_effect || !is_complete, Stored, document, reason);
        }
        ClientEvent::Rejected { proposal } => {
            let found = live(evidence, "ppl_").find(|one| one.id == *proposal);
            let extraction = found.and_then(|found| found.live["resources"]["extraction"].as_str());
            let reason = "the proposal was rejected, and its extraction exists";
            findings.add_unless(!is_live(evidence, extraction), Orphan, proposal, reason);
        }
        _ => {}
    }
}
