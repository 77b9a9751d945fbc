//! `Resume` and `TakeOver`: continue a turn that failed or has no owner.

use folio_history::journal::End;
use folio_history::thread::{HeaderChange, OpenTurn, Phase};
use folio_history::{RoundRecord, TurnRecord};
use folio_types::{Error, Reason, Timestamp, limits};

use super::append::AfterAppend;
use super::machine::State;
use super::{Answer, Command, Machine, Ticket};

impl Machine {
    pub(super) fn resume(&mut self, now: Timestamp, ticket: Ticket, turn: u32) {
        match self.history.turn(turn) {
            None => self.refuse(ticket, Error::not_found("turn", self.turn_id(turn))),
            Some(_) if self.is_resumable(now, turn) => self.resume_newest(now, Some(ticket)),
            Some(record) if record.ended.is_some() => self.refuse(ticket, not_resumable("it has ended")),
            Some(_) => match self.state {
                State::Waiting => self.refuse(ticket, not_resumable("it waits for approval")),
                State::Closing(_) => self.refuse(ticket, not_resumable("it is ending")),
                State::Orphaned => {
                    self.take_over_for_request(now);
                    self.defer(Command::Resume { ticket, turn });
                }
                _ => {
                    self.cancel_pending_failure();
                    self.answer(ticket, Answer::Streaming { turn, from: 1, joined: true });
                }
            },
        }
    }

    /// Returns true if the turn is the newest one and failed retriably at most one day ago, or at any time because its job was
    /// paused: a job may stay paused for longer.
    pub(crate) fn is_resumable(&self, now: Timestamp, turn: u32) -> bool {
        let record = self.history.last().filter(|record| record.number() == turn && record.is_retriable());
        let Some(ended) = record.and_then(|record| record.ended.as_ref()) else { return false };
        let is_paused = matches!(&ended.end, End::Failed { error, .. } if error.reason == Reason::JobPaused);
        let day = jiff::SignedDuration::try_from(limits::DAY).unwrap_or_default();
        is_paused || now.duration_since(ended.at) <= day
    }

    /// Resumes the newest turn, which must have failed retriably.
    pub(super) fn resume_newest(&mut self, now: Timestamp, ticket: Option<Ticket>) {
        let Some(turn) = self.history.last().map(TurnRecord::number) else { return };
        let open = OpenTurn { number: turn, phase: Phase::Running, expires_at: None };
        let change = HeaderChange { open_turn: Some(Some(open)), ..HeaderChange::default() };
        self.append(now, Vec::new(), change, AfterAppend::Resumed(ticket));
    }

    /// Takes over a turn without an owner. The turn continues instead of failing, because a request waits for it.
    pub(super) fn take_over_for_request(&mut self, now: Timestamp) {
        self.take_over(now);
        self.cancel_pending_failure();
    }

    /// Lets the taken-over turn continue instead of failing, because a request waits for it.
    pub(super) fn cancel_pending_failure(&mut self) {
        self.pending_failure.take_if(|error| error.is_retriable());
    }

    /// Takes over the open turn and ends it with `error`, because the store permanently refuses its entries.
    pub(super) fn fail_unwritable(&mut self, now: Timestamp, error: Error) {
        if self.state == State::Orphaned {
            self.take_over(now);
            self.pending_failure = Some(error);
        }
    }

    /// Takes over an open turn without an owner, ends a turn whose pause or group has expired, or reads the states of the
    /// children of an open group.
    pub(super) fn advance_unowned(&mut self, now: Timestamp) {
        match self.state {
            State::Orphaned => self.take_over(now),
            State::Waiting => drop(self.expire_if_due(now)),
            State::AwaitingChildren | State::ReadingChildren | State::StartingChildren(_) => self.check_children(now),
            _ => {}
        }
    }

    fn take_over(&mut self, now: Timestamp) {
        let Some(record) = self.history.open() else { return };
        let lost = Error::unavailable(Reason::NodeLost, "the node that ran the turn died or restarted");
        let phase = if record.closing.is_some() { Phase::Closing } else { self.working_phase() };
        self.pending_failure = Some(lost);
        let change = self.phase_change(phase);
        self.append(now, Vec::new(), change, AfterAppend::Resumed(None));
    }

    /// Handles a committed takeover or resumption: answers the request, if any, and continues the turn.
    pub(super) fn resumed(&mut self, now: Timestamp, ticket: Option<Ticket>) {
        let Some(record) = self.history.open() else { return };
        let turn = record.number();
        self.buffered.written_round = record.newest_round().map_or(0, |round| round.round);
        if let Some(ticket) = ticket {
            let from = self.next_event.saturating_sub(1);
            self.answer(ticket, Answer::Streaming { turn, from, joined: false });
        }
        self.advance(now);
    }

    /// Returns true if the round must pause before its calls run: a call needs a decision, or the newest decisions do
    /// not permit the turn to continue through later rounds. No person watches a child turn, so it continues.
    pub(super) fn must_pause(&self, record: &TurnRecord, round: &RoundRecord) -> bool {
        let decided = record.rounds.iter().rev().find(|earlier| earlier.has_decisions);
        let stops_after_round =
            self.header.task.is_none() && decided.is_some_and(|earlier| !earlier.continue_auto_approved);
        round.undecided().next().is_some()
            || (stops_after_round && round.correction.is_none() && round.node_end().is_none())
    }
}

fn not_resumable(reason: &str) -> Error {
    Error::precondition(Reason::TurnNotResumable, format!("the turn cannot be resumed: {reason}"))
}
