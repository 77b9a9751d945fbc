//! The invariants, checked in every state.

use folio_history::journal::{Access, Call, CallStatus, Decision, End, Entry};
use folio_history::reference::{references, replace_references};
use folio_history::{CallRecord, History, RoundRecord, TurnRecord, sanitize};
use folio_types::Reason;

use super::super::store::expected;
use super::world::{Node, Received, World};

pub(super) const COMMITTED_LOST: &str = "1: a committed entry is lost";
pub(super) const UNAPPROVED: &str = "2: an effect without approval";
pub(super) const OTHER_CALL: &str = "3: the history contains another call than the executed one";
pub(super) const HIDDEN_EFFECT: &str = "3: an effect that the history reports as not happened";
pub(super) const OVERWRITTEN: &str = "3: an edit was overwritten";
pub(super) const UNRESOLVED: &str = "3: an intent without the ids of the recorded results";
pub(super) const UNANSWERED: &str = "4: an ended turn has calls without results";
pub(super) const SUPERSEDED: &str = "7: a request superseded the turn of the next";
pub(super) const NOT_FOUND: &str = "8: an open turn that no sweep finds";
pub(super) const UNKNOWN_NUMBER: &str = "9: a closing event whose number the journal does not have";
pub(super) const ANSWER_LOST: &str = "a turn whose answer is stored ended without it";
pub(super) const SUMMARIES: &str = "the journal has two summaries of the same messages, or one that fails its turn";
pub(super) const NEVER_RUNS: &str = "an approved write never runs";
pub(super) const EXPIRED_AND_RAN: &str = "TURN_EXPIRED was answered, and it ran";

impl World {
    /// Records the first violated invariant.
    pub(in super::super) fn check(&mut self) {
        if self.violation.is_none() {
            self.violation = self.find();
        }
    }

    fn find(&self) -> Option<&'static str> {
        if self.thread.overwritten {
            return Some(COMMITTED_LOST);
        }
        let history = &self.thread.history;
        history.turns().iter().find_map(|record| self.find_in(record)).or_else(|| {
            [
                self.late_decision(),
                self.unsendable(history),
                self.not_found_by_sweep(),
                self.wrong_answer(history),
                self.wrong_summaries(),
            ]
            .into_iter()
            .flatten()
            .next()
        })
    }

    fn find_in(&self, record: &TurnRecord) -> Option<&'static str> {
        if let Some(what) = self.find_in_group(record) {
            return Some(what);
        }
        for round in &record.rounds {
            for call in &round.calls {
                let name = format!("{}.{}.{}", record.number(), round.round, call.call.index);
                if is_unresolved(round, call) {
                    return Some(UNRESOLVED);
                }
                if let Some(what) = self.find_in_call(record, round.is_decided(), call, &name) {
                    return Some(what);
                }
            }
        }
        let is_answered = record.answered_end().is_some();
        let is_completed = record.ended.as_ref().is_none_or(|ended| matches!(ended.end, End::Completed { .. }));
        if is_answered && !is_completed {
            return Some(ANSWER_LOST);
        }
        let missing = record.rounds.iter().any(|round| round.unanswered().next().is_some());
        (record.ended.is_some() && missing).then_some(UNANSWERED)
    }

    fn find_in_call(&self, record: &TurnRecord, decided: bool, call: &CallRecord, name: &str) -> Option<&'static str> {
        let effects: Vec<_> = self.aggregates.effects.iter().filter(|effect| effect.call == name).collect();
        let approved = matches!(call.decision, Some(Decision::Approve | Decision::ApproveEdited { .. }));
        let status = call.status();
        if effects.len() > 1 {
            return Some("3: an effect happened twice");
        }
        if let Some(effect) = effects.first() {
            if must_be_approved(record, call) && !approved {
                return Some(UNAPPROVED);
            }
            if effect.tool != call.call.name {
                return Some(OTHER_CALL);
            }
            if status.is_some_and(|status| status != CallStatus::Ok) {
                return Some(HIDDEN_EFFECT);
            }
            if call.intent.as_ref().is_some_and(|intent| expected(intent) != effect.overwritten) {
                return Some(OVERWRITTEN);
            }
        } else if status == Some(CallStatus::Ok) && call.call.access == Access::ReadWrite && call.group.is_none() {
            return Some("3: the history reports a call as done that had no effect");
        }
        // A call that runs again when the turn is resumed is not dropped.
        let ended = record.ended.as_ref().filter(|ended| !ended.runs_again).map(|ended| &ended.end);
        let continues = matches!(ended, Some(End::Completed { .. } | End::Failed { .. }));
        let is_dropped = matches!(
            status,
            Some(CallStatus::NotRun | CallStatus::Cancelled | CallStatus::Superseded | CallStatus::Expired)
        );
        // A call with references is dropped if an earlier call has no effect, and is repeated if its ids need approval.
        let is_independent = references(call.arguments()).next().is_none();
        let is_write = call.group.is_none();
        (continues && decided && approved && is_dropped && is_independent && is_write).then_some(NEVER_RUNS)
    }

    fn late_decision(&self) -> Option<&'static str> {
        self.thread.row.entries.iter().find_map(|entry| {
            let Entry::Decisions(decisions) = entry else { return None };
            let pause = self.thread.history.turn(decisions.turn)?.round(decisions.round)?.paused.as_ref()?;
            (decisions.decided_at >= pause.expires_at).then_some("2: decided after the expiry")
        })
    }

    /// The messages of a scope are enough for one summary. A turn that fails has started a round, or lost its node.
    fn wrong_summaries(&self) -> Option<&'static str> {
        let summaries = self.thread.row.entries.iter().filter(|entry| matches!(entry, Entry::Summary(_))).count();
        let has_failed = |record: &TurnRecord| {
            let ended = record.ended.as_ref().map(|ended| &ended.end);
            matches!(ended, Some(End::Failed { error, .. }) if error.reason != Reason::NodeLost)
        };
        let is_called =
            |record: &TurnRecord| self.model_calls.iter().any(|call| call.0 == record.number() && call.1 > 0);
        let mut turns = self.thread.history.turns().iter();
        (summaries > 1 || turns.any(|record| has_failed(record) && !is_called(record))).then_some(SUMMARIES)
    }

    fn unsendable(&self, history: &History) -> Option<&'static str> {
        let messages: Vec<_> = history.messages().map(|shown| shown.message).collect();
        (sanitize(messages.clone()) != messages).then_some("4: the history cannot be sent")
    }

    fn not_found_by_sweep(&self) -> Option<&'static str> {
        let open = self.thread.row.header.open_turn.as_ref()?;
        let found = self.thread.row.open_rows.iter().any(|row| row.0 == open.number);
        let is_coming = (0..self.nodes.len()).filter_map(|node| self.node(node)).any(Node::is_inserting);
        (!found && !is_coming).then_some(NOT_FOUND)
    }

    fn wrong_answer(&self, history: &History) -> Option<&'static str> {
        for received in &self.received {
            match received {
                Received::Expired(ask) => {
                    let Some(round) = self.scope.decides(*ask) else { continue };
                    let decided = |record: &TurnRecord| record.round(round).is_some_and(|round| round.is_decided());
                    let ran = self.aggregates.calls().iter().any(|call| call.starts_with(&format!("1.{round}.")));
                    if ran || history.turn(1).is_some_and(decided) {
                        return Some(EXPIRED_AND_RAN);
                    }
                }
                Received::Closing(ask, number, kind, false) => {
                    let other = self.received.iter().any(|other| {
                        matches!(other, Received::Closing(by, n, k, false)
                            if self.scope.same_decisions(*by, *ask) && (n, k) != (number, kind))
                    });
                    if other {
                        return Some("7: the same decisions got two answers");
                    }
                }
                Received::Stream(turn, what, number) => {
                    let differs = |other: &Received| matches!(other, Received::Stream(t, w, n) if (t, w) == (turn, what) && n != number);
                    if self.received.iter().any(differs) {
                        return Some("9: two closing events where one stream ended");
                    }
                    if !closing_numbers(&self.thread.row.entries, *turn).contains(number) {
                        return Some(UNKNOWN_NUMBER);
                    }
                }
                Received::Closing(..) => {}
            }
        }
        let superseded = |turn| history.turn(turn).is_some_and(|record: &TurnRecord| ended_superseded(record));
        superseded(2).then_some(SUPERSEDED)
    }

    pub(in super::super) fn is_quiet(&self) -> bool {
        (0..self.nodes.len()).all(|node| self.node(node).is_none_or(|live| live.todo.is_empty()))
    }
}

/// Returns true if the call waited, or had to wait by the recorded profile and options. The rules of a policy may permit a
/// call, so they are not evaluated here.
fn must_be_approved(record: &TurnRecord, call: &CallRecord) -> bool {
    let (options, Call { name, access, .. }) = (&record.accepted.options, &call.call);
    let waits = options.waits_by_default(name, *access) && !options.approves(name);
    call.call.needs_approval || (options.policy.is_empty() && waits)
}

/// Returns true if an intent does not contain the ids of the results that the journal contained before it.
fn is_unresolved(round: &RoundRecord, call: &CallRecord) -> bool {
    let Some(intent) = &call.intent else { return false };
    let has_references = references(call.arguments()).next().is_some();
    let resolved =
        replace_references(call.arguments(), |_, reference| reference.value(round.referred(call, reference)?));
    has_references && intent.arguments.as_ref() != Some(&resolved)
}

fn ended_superseded(record: &TurnRecord) -> bool {
    record.ended.as_ref().is_some_and(|ended| ended.end == End::Superseded)
}

fn closing_numbers(entries: &[Entry], turn: u32) -> Vec<u64> {
    entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Paused(paused) if paused.turn == turn => Some(paused.event),
            Entry::Ended(ended) if ended.turn == turn => Some(ended.event),
            _ => None,
        })
        .collect()
}
