//! Pauses and ends turns: the entries to append, and the effects after the commit.

use folio_history::journal::{CallResult, CallStatus, End, Ended, Entry, Paused};
use folio_history::thread::{HeaderChange, OpenTurn, OpenTurnRow, Phase, ThreadHeader};
use folio_history::{TurnRecord, json_bytes};
use folio_types::{Error, Reason, Timestamp, limits};

use super::append::AfterAppend;
use super::cancel::synthetic;
use super::machine::State;
use super::{Effect, Machine, bounds};

/// Result of calls that a failed turn never started.
const NOT_STARTED: &str = "Not run: the turn failed before this call started.";

impl Machine {
    pub(super) fn pause(&mut self, now: Timestamp) {
        let event = self.closing_number();
        let Some(record) = self.history.open() else { return };
        let Some(round) = record.newest_round() else { return };
        let lifetime = jiff::SignedDuration::from_secs(i64::from(record.accepted.options.approval_ttl_seconds));
        let expires_at = now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        let (turn, round, working) = (record.number(), round.round, record.working.clone());
        let open = OpenTurn { number: turn, phase: Phase::Paused, expires_at: Some(expires_at) };
        let change = HeaderChange { open_turn: Some(Some(open)), ..HeaderChange::default() };
        let entry = Entry::Paused(Paused { turn, round, expires_at, working, event, at: now });
        self.append(now, vec![entry], change, AfterAppend::Paused);
    }

    /// Handles a committed pause: closes the stream and answers waiting requests.
    pub(super) fn paused(&mut self) {
        self.state = State::Waiting;
        self.pending_failure = None;
        self.emit_closing();
        self.answer_waiters();
    }

    pub(super) fn fail(&mut self, now: Timestamp, error: Error, retriable: bool) {
        self.end(now, End::Failed { error, retriable });
    }

    /// Fails the turn because a precondition of a write (credit, slot) was refused. Resuming the turn runs this call
    /// and the calls after it.
    pub(super) fn fail_unstarted(&mut self, now: Timestamp, error: Error) {
        self.end_as(now, End::Failed { error, retriable: true }, true);
    }

    /// Ends the open turn. Every call without a result gets a synthetic result.
    pub(super) fn end(&mut self, now: Timestamp, end: End) {
        self.end_as(now, end, false);
    }

    fn end_as(&mut self, now: Timestamp, end: End, runs_again: bool) {
        let event = self.closing_number();
        let Some(record) = self.history.open() else { return };
        let (mut end, working) = self.end_of_graph(record, end);
        let runs_again = runs_again && !self.is_final(&end);
        if self.is_final(&end)
            && let End::Failed { retriable, .. } = &mut end
        {
            *retriable = false;
        }
        if let End::Completed { text, thinking, .. } = &mut end {
            bounds::fit_answer(text, thinking, json_bytes(&working));
        }
        let status = status_without_result(&end);
        let reason = if runs_again { NOT_STARTED } else { synthetic(status) };
        let ended = Ended {
            turn: record.number(),
            results: synthetic_results(record, status, reason),
            runs_again,
            end,
            working: working.clone(),
            usage: record.usage,
            event,
            at: now,
        };
        let change = HeaderChange { open_turn: Some(None), working: Some(working), ..HeaderChange::default() };
        self.append(now, vec![Entry::Ended(Box::new(ended))], change, AfterAppend::Ended);
    }

    /// Returns true if a failed end cannot be resumed, because it is that of a child turn: the parent receives it as the result.
    /// The parent continues a child turn only after the loss of its node.
    fn is_final(&self, end: &End) -> bool {
        let is_lost = matches!(end, End::Failed { error, .. } if error.reason == Reason::NodeLost);
        let takeovers = self.history.open().map_or(0, |record| record.takeovers);
        self.header.task.is_some() && !(is_lost && takeovers < limits::TASK_RESUMES_MAX)
    }

    /// Handles a committed end: closes the stream, answers waiting requests, notifies the parent of a child turn, and removes
    /// the open-turn row.
    pub(super) fn ended(&mut self) {
        self.state = State::Idle;
        self.pending_failure = None;
        self.emit_closing();
        self.answer_waiters();
        let Some(turn) = self.history.last().map(TurnRecord::number) else { return };
        let at = self.history.last().and_then(|record| record.ended.as_ref()).map_or(Timestamp::MIN, |ended| ended.at);
        for ticket in std::mem::take(&mut self.waiters.end) {
            self.answer_ended(at, ticket, turn);
        }
        let row = OpenTurnRow {
            org: self.header.org.clone(),
            turn: self.turn_id(turn),
            epoch: self.header.epoch,
            at: self.history.last().map_or(Timestamp::MIN, TurnRecord::taken_at),
            until: Timestamp::MAX,
        };
        if let Some(task) = &self.header.task {
            self.effects.push(Effect::NotifyParent(task.origin.call.turn.clone()));
        }
        self.effects.push(Effect::RemoveOpenTurn(row));
    }

    /// Emits the closing event with its number from the journal.
    fn emit_closing(&mut self) {
        let id = self.header.id.clone();
        let Some(closing) = self.history.last().and_then(|record| record.closing_event(&id)) else { return };
        self.next_event = closing.number;
        self.emit(closing.kind);
    }
}

/// Returns the status of calls without a result in a turn with this end.
fn status_without_result(end: &End) -> CallStatus {
    match end {
        End::Completed { .. } | End::Failed { .. } => CallStatus::NotRun,
        End::Cancelled => CallStatus::Cancelled,
        End::Expired => CallStatus::Expired,
        End::Superseded => CallStatus::Superseded,
    }
}

fn synthetic_results(record: &TurnRecord, status: CallStatus, reason: &str) -> Vec<CallResult> {
    record
        .rounds
        .iter()
        .flat_map(|round| round.unanswered().map(move |call| (round.round, call.call.index)))
        .map(|(round, index)| bounds::not_run(round, index, status, reason))
        .collect()
}

/// Returns true if a row of the open-turn index may be removed: its turn has ended, and the header's epoch is not below
/// the row's epoch. With a lower epoch, the append of the row may still be in flight.
pub fn is_open_row_over(header: &ThreadHeader, row: &OpenTurnRow) -> bool {
    let open = header.open_turn.as_ref().is_some_and(|open| open.number == row.turn.number);
    !open && header.turns >= row.turn.number && header.epoch >= row.epoch
}
