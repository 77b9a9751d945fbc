//! The checker: reads what the stores hold and what the clients heard, and says which invariants were broken.
//!
//! It shares no decision with the product: it folds the journal in its own way and knows the protocol's words only. What is
//! judged was gathered at rest, when every fault was over and nothing ran any more.

mod answers;
mod audit;
mod credit;
mod effects;
mod ends;
mod evidence;
mod journal;
mod one_writer;
mod permission;
mod sendable;
mod streams;
mod tenants;

#[cfg(test)]
mod tests;

use std::fmt;

pub use evidence::{AccountSeen, AggregateSeen, AuditSeen, Evidence, StillBusy, ThreadSeen};
use journal::Turn;

/// What was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Broken {
    /// Invariant 1: somebody wrote who was not the owner, or a write that stood was lost.
    OneWriter,
    /// Invariant 2: an effect without an approval of exactly it.
    Permission,
    /// Invariant 3: an effect twice, or one that the history does not tell, or one that it tells and that is not there.
    EffectsOnce,
    /// Invariant 4: a call without a result, or with two.
    Sendable,
    /// Invariant 5: a sum of credit that is wrong, a block that is overdrawn, a call that is charged twice.
    Spend,
    /// Invariant 6: one tenant's in another's.
    Tenants,
    /// Invariant 7: the same decisions with another answer.
    Idempotent,
    /// Invariant 8: a turn without an end, or with one that was not to be.
    VisibleEnd,
    /// Invariant 9: a stream that cannot be rejoined.
    Streams,
    /// What was acknowledged is not stored.
    Stored,
    /// A thread was busy for longer than it may be.
    Busy,
    /// The audit log and the journal say different things.
    Audit,
}

/// One violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What was broken.
    pub broken: Broken,
    /// Where: a thread, turn, call or aggregate.
    pub place: String,
    /// How.
    pub how: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}: {}", self.broken, self.place, self.how)
    }
}

/// What a check writes its findings to.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Violation>);

impl Findings {
    pub(crate) fn add(&mut self, broken: Broken, place: impl fmt::Display, how: impl Into<String>) {
        self.0.push(Violation { broken, place: place.to_string(), how: how.into() });
    }

    pub(crate) fn add_unless(&mut self, holds: bool, broken: Broken, place: impl fmt::Display, how: impl Into<String>) {
        if !holds {
            self.add(broken, place, how);
        }
    }
}

/// Judges what was gathered.
pub fn check(evidence: &Evidence) -> Vec<Violation> {
    let mut findings = Findings::default();
    let all: Vec<(&ThreadSeen, Vec<Turn<'_>>)> =
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
    evidence.accounts.iter().for_each(|account| credit::check(account, &mut findings));
    for busy in &evidence.busy {
        findings.add(Broken::Busy, &busy.thread, format!("still busy {:?} after nobody ran it", busy.since));
    }
    findings.0
}
