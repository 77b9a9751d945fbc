//! The checker: compares the stores with the clients' logs and reports violations of invariants.
//!
//! The checker shares no decision code with the product: it interprets the journal independently and only uses the
//! stored types. The input of the checker is collected after all faults, when no turn is running.

mod answers;
mod audit;
mod budgets;
mod credit;
mod effects;
mod ends;
mod evidence;
mod jobs;
mod journal;
mod model_calls;
mod one_writer;
mod orphans;
mod permission;
mod proposals;
mod sendable;
mod streams;
mod tenants;

#[cfg(test)]
mod job_tests;
#[cfg(test)]
mod tests;

use std::fmt;

pub use evidence::{
    Evidence, ObservedAccount, ObservedAggregate, ObservedAuditEntry, ObservedJob, ObservedModelRequest,
    ObservedThread, StuckThread,
};
use journal::Turn;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// Invariant 1: a process other than the owner wrote, or a committed write was lost.
    OneWriter,
    /// Invariant 2: an effect without an approval of exactly this call.
    Permission,
    /// Invariant 3: an effect happened twice, is missing in the history, or is only in the history.
    EffectsOnce,
    /// Invariant 4: a call has no result or two results.
    Sendable,
    /// Invariant 5: a wrong sum of credit, an overdrawn block or budget, or a model call that was charged twice or not at all.
    Spend,
    /// Invariant 6: data of one tenant is visible to another.
    Tenants,
    /// Invariant 7: the same decisions got different answers.
    Idempotent,
    /// Invariant 8: a turn has no end or an invalid end.
    VisibleEnd,
    /// Invariant 9: a stream cannot be resumed.
    Streams,
    /// Acknowledged data is not stored.
    Stored,
    /// A thread was busy for too long.
    Busy,
    /// The audit log and the journal differ.
    Audit,
    /// A job has no end, or another end than a client received.
    JobEnd,
    /// An extraction, a proposal or a hidden thread that no job and no proposal names.
    Orphan,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub invariant: Invariant,
    /// The id of the thread, turn, call or aggregate that violates the invariant.
    pub subject: String,
    pub reason: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}: {}", self.invariant, self.subject, self.reason)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, invariant: Invariant, subject: impl fmt::Display, reason: impl Into<String>) {
        self.0.push(Violation { invariant, subject: subject.to_string(), reason: reason.into() });
    }

    fn add_unless(&mut self, is_ok: bool, invariant: Invariant, subject: impl fmt::Display, reason: impl Into<String>) {
        if !is_ok {
            self.add(invariant, subject, reason);
        }
    }
}

/// Returns every violation in the evidence.
pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut findings = Findings::default();
    let all: Vec<(&ObservedThread, Vec<Turn<'_>>)> =
        evidence.threads.iter().map(|thread| (thread, journal::turns(thread, &mut findings))).collect();
    for (thread, turns) in &all {
        one_writer::check(thread, &mut findings);
        for turn in turns {
            sendable::check(turn, &mut findings);
            permission::check(turn, &evidence.log, &mut findings);
            ends::check(thread, turn, evidence.taken_at, &mut findings);
            effects::check(turn, evidence, &mut findings);
            if let Some(log) = &evidence.audit {
                audit::check(turn, log, &mut findings);
            }
        }
    }
    effects::check_rows(&all, evidence, &mut findings);
    answers::check(&all, &evidence.aggregates, &evidence.log, &mut findings);
    streams::check(&all, &evidence.log, &mut findings);
    tenants::check(evidence, &mut findings);
    jobs::check(evidence, &mut findings);
    orphans::check(evidence, &mut findings);
    proposals::check(evidence, &mut findings);
    evidence.accounts.iter().for_each(|account| credit::check(account, &mut findings));
    budgets::check(evidence, &mut findings);
    if let Some(requests) = &evidence.model_requests {
        model_calls::check(requests, &evidence.accounts, &mut findings);
    }
    for busy in &evidence.busy {
        findings.add(
            Invariant::Busy,
            &busy.thread,
            format!("the thread was still busy {:?} after the end of all work: {}", busy.since, busy.reason),
        );
    }
    findings.0
}
