//! `Cancel`, supersede and interrupt: end a turn early, with a definite outcome for every started call.

use folio_history::TurnRecord;
use folio_history::journal::{CallResult, CallStatus, Closing, ClosingCause, End, Entry};
use folio_history::thread::Phase;
use folio_types::message::Usage;
use folio_types::{Error, Reason, Timestamp};

use super::append::AfterAppend;
use super::machine::State;
use super::model::out_of_time;
use super::{Answer, Effect, Machine, Ticket, ToolResult, bounds};

impl Machine {
    pub(super) fn cancel(&mut self, now: Timestamp, ticket: Ticket, turn: u32) {
        match self.history.turn(turn) {
            None => self.refuse(ticket, Error::not_found("turn", self.turn_id(turn))),
            Some(record) if record.ended.is_some() && self.header.task.is_some() && self.is_resumable(now, turn) => {
                self.end_finally(now, ticket);
            }
            Some(record) if record.ended.is_some() => self.answer_ended(now, ticket, turn),
            Some(_) => {
                self.waiters.end.push(ticket);
                if self.state != State::Waiting || !self.expire_if_due(now) {
                    self.close(now, ClosingCause::Cancelled);
                }
            }
        }
    }

    /// Ends a child turn that its parent could continue after the loss of its node, so that no late start continues it.
    fn end_finally(&mut self, now: Timestamp, ticket: Ticket) {
        self.waiters.end.push(ticket);
        self.pending_failure = Some(Error::precondition(Reason::TurnEnded, "the turn above this task ended"));
        self.resume_newest(now, None);
    }

    /// Ends the open turn. If intents or a group are open, a `closing` entry is appended first, so that a new owner also ends
    /// the turn.
    pub(super) fn close(&mut self, now: Timestamp, cause: ClosingCause) {
        let Some(record) = self.history.open() else { return };
        if record.closing.is_some() {
            if matches!(self.state, State::Orphaned) {
                self.advance_unowned(now);
            }
            return;
        }
        self.effects.push(Effect::StopWork);
        let (turn, open) = (record.number(), record.open_intents().next().is_some() || record.open_group().is_some());
        if !open {
            let end = ending(record, cause, now);
            return self.end(now, end);
        }
        let change = self.phase_change(Phase::Closing);
        self.append(now, vec![Entry::Closing(Closing { turn, cause, at: now })], change, AfterAppend::Written);
    }

    /// Closes the op rows of the open intents of an ending turn and ends the children of its open group, and then ends the turn.
    pub(super) fn close_intents(&mut self, now: Timestamp) {
        let Some(record) = self.history.open() else { return };
        let Some(closing) = &record.closing else { return };
        let (open, group) = (self.runs_of_open_intents(record), self.group_run());
        if open.is_empty() && group.is_none() {
            let end = ending(record, closing.cause, closing.at);
            return self.end(now, end);
        }
        let runs = open.iter().map(|(run, _)| run).chain(group.iter().map(|group| &group.run));
        self.state = State::Closing(runs.map(|run| (run.call.round, run.call.index)).collect());
        self.effects.extend(open.into_iter().map(|(run, intent)| Effect::Close(run, intent)));
        self.effects.extend(group.map(|group| Effect::EndChildren(Box::new(group))));
    }

    /// Handles a closed op row. `result`: the result of an existing row. `usage`: the usage of the call's model calls.
    pub(super) fn closed(
        &mut self,
        now: Timestamp,
        (round, index): (u32, u32),
        result: Option<ToolResult>,
        usage: Usage,
    ) {
        let State::Closing(left) = &mut self.state else { return };
        if !left.remove(&(round, index)) {
            return;
        }
        let done = left.is_empty();
        let closing = self.history.open().and_then(|record| record.closing.as_ref());
        let status = status_of(closing.map(|closing| closing.cause));
        let not_run = || bounds::not_run(round, index, status, synthetic(status));
        let result = result.map_or_else(not_run, |result| result.into_call_result(round, index));
        self.record_result(now, CallResult { usage, ..result });
        if done {
            self.advance(now);
        }
    }

    pub(super) fn answer_ended(&mut self, now: Timestamp, ticket: Ticket, turn: u32) {
        if let Some(view) = self.view(now, turn) {
            self.answer(ticket, Answer::Ended(Box::new(view)));
        }
    }

    fn runs_of_open_intents(&self, record: &TurnRecord) -> Vec<(super::ToolRun, folio_history::journal::Intent)> {
        record
            .open_intents()
            .filter_map(|(round, call)| Some((self.tool_run(record, round, call), call.intent.clone()?)))
            .collect()
    }
}

/// Returns the end of a turn that began to end at `at`.
fn ending(record: &TurnRecord, cause: ClosingCause, at: Timestamp) -> End {
    let limit = record.accepted.options.running_time();
    match cause {
        ClosingCause::Cancelled => End::Cancelled,
        ClosingCause::Superseded => End::Superseded,
        ClosingCause::Expired if limit.is_some_and(|limit| record.running_time(at) >= limit) => {
            End::Failed { error: out_of_time(), retriable: false }
        }
        ClosingCause::Expired => End::Expired,
    }
}

/// Returns the status of the calls that a turn with this cause of its end stops.
pub(super) fn status_of(cause: Option<ClosingCause>) -> CallStatus {
    match cause {
        Some(ClosingCause::Superseded) => CallStatus::Superseded,
        Some(ClosingCause::Expired) => CallStatus::Expired,
        Some(ClosingCause::Cancelled) | None => CallStatus::Cancelled,
    }
}

/// Returns the result that the model receives for a call that did not run.
pub(super) fn synthetic(status: CallStatus) -> &'static str {
    match status {
        CallStatus::Rejected => "User rejected this action.",
        CallStatus::Cancelled => "Not run: the user cancelled the turn.",
        CallStatus::Expired => "Not run: the approval expired.",
        CallStatus::Superseded => "Not run: the user wrote another message instead of approving.",
        CallStatus::Conflict => "Not run: the target changed after the action was approved.",
        CallStatus::NotRun => "Not run: the turn ended before this call.",
        CallStatus::Unknown => "The outcome is unknown: the change may have happened.",
        CallStatus::Ok | CallStatus::Failed => "Failed: no result was recorded.",
    }
}
