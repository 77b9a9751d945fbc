//! `Decide`: compares decisions with the recorded ones, records them, and runs the round once no decision is missing.

use std::collections::BTreeMap;

use folio_history::journal::{Decision, Decisions, Entry};
use folio_history::thread::HeaderChange;
use folio_history::{CallRecord, RoundRecord, TurnRecord, json_bytes};
use folio_tools::policy;
use folio_types::{Code, Digest, Error, Reason, Timestamp};

use super::append::AfterAppend;
use super::group::awaits_tasks;
use super::machine::State;
use super::{Answer, Command, Decide, Machine, RequestedDecision, Ticket, bounds};

impl Machine {
    pub(super) fn decide(&mut self, now: Timestamp, decide: Decide) {
        match self.evaluate(&decide) {
            Err(error) => self.refuse(decide.ticket, error),
            Ok(Evaluation { round, new, complete: true }) if new.is_empty() => self.answer_recorded(now, decide, round),
            Ok(_) if self.expire_if_due(now) => self.defer(Command::Decide(Box::new(decide))),
            Ok(Evaluation { round, new, .. }) if new.is_empty() => self.answer_still_awaiting(decide.ticket, round),
            Ok(Evaluation { round, new, complete }) => self.record(now, decide, round, new, complete),
        }
    }

    /// Compares a request with the recorded decisions. An error refuses the whole request. Recorded decisions take
    /// precedence over the end of the turn.
    fn evaluate(&self, decide: &Decide) -> Result<Evaluation, Error> {
        let not_found = || Error::not_found("turn", self.turn_id(decide.turn));
        let record = self.history.turn(decide.turn).ok_or_else(not_found)?;
        let number = requested_round(decide)?;
        let round = record.round(number).ok_or_else(|| not_waiting(number))?;
        let mut new = BTreeMap::new();
        for (position, requested) in decide.decisions.iter().enumerate() {
            let call = round.call(requested.index).ok_or_else(|| unknown_call(position, requested))?;
            if requested.digest.as_ref().is_some_and(|digest| *digest != Digest::of_json(&call.call.arguments)) {
                return Err(digest_mismatch(call));
            }
            let other = new.insert(requested.index, requested.decision.clone());
            if other.is_some_and(|other| other != requested.decision) {
                return Err(conflict(call));
            }
            match decided(round, call) {
                Some(recorded) if recorded != requested.decision => return Err(conflict(call)),
                Some(_) => drop(new.remove(&requested.index)),
                None => check(position, requested, call, record, decide)?,
            }
        }
        if round.is_decided() {
            return Ok(Evaluation { round: number, new, complete: true });
        }
        if decide.reject_undecided {
            for call in round.undecided() {
                new.entry(call.call.index).or_insert(Decision::Reject { reason: None });
            }
        }
        if new.is_empty() && !decide.decisions.is_empty() && record.ended.is_some() {
            return Ok(Evaluation { round: number, new, complete: true });
        }
        self.may_decide(record, round)?;
        let complete = round.undecided().all(|call| new.contains_key(&call.call.index));
        Ok(Evaluation { round: number, new, complete })
    }

    /// Returns an error unless the round accepts decisions.
    fn may_decide(&self, record: &TurnRecord, round: &RoundRecord) -> Result<(), Error> {
        if let Some(ended) = &record.ended {
            return Err(match ended.end {
                folio_history::journal::End::Expired => expired(),
                _ => Error::precondition(Reason::TurnEnded, "the turn ended before these decisions were recorded"),
            });
        }
        if record.closing.is_some() {
            return Err(Error::precondition(Reason::TurnEnded, "the turn is ending"));
        }
        if round.paused.is_none() {
            return Err(not_waiting(round.round));
        }
        Ok(())
    }

    /// Answers a request whose decisions are all recorded: with the outcome of the round, or later if there is none.
    fn answer_recorded(&mut self, now: Timestamp, decide: Decide, round: u32) {
        let (ticket, turn) = (decide.ticket, decide.turn);
        let Some(record) = self.history.turn(turn) else { return };
        // A round that needs no decision is decided by the first `Approve` without decisions.
        if record.ended.is_none() && !record.round(round).is_some_and(RoundRecord::is_decided) {
            return self.run_undecided(now, decide, round);
        }
        if record.answer_event(&self.header.id, round).is_some() && !self.is_resumable_failure(now, record, round) {
            return self.answer_decided(ticket, turn, round);
        }
        if self.has_open_group() {
            return self.refuse(ticket, awaits_tasks());
        }
        self.waiters.decisions.push((ticket, round));
        match self.state {
            State::Idle => self.resume_newest(now, None),
            State::Orphaned => self.take_over_for_request(now),
            _ => self.cancel_pending_failure(),
        }
    }

    /// Runs a round that needs no decision, after `Approve` without decisions.
    fn run_undecided(&mut self, now: Timestamp, decide: Decide, round: u32) {
        if self.expire_if_due(now) {
            return self.defer(Command::Decide(Box::new(decide)));
        }
        self.record(now, decide, round, BTreeMap::new(), true);
    }

    /// Returns true if the outcome of the round is a failure that a repeated request resumes.
    fn is_resumable_failure(&self, now: Timestamp, record: &TurnRecord, round: u32) -> bool {
        let paused_later = record.rounds.iter().any(|later| later.round > round && later.paused.is_some());
        !paused_later && self.is_resumable(now, record.number())
    }

    /// Records decisions. If none is missing, they are appended together with the first step of the round.
    fn record(&mut self, now: Timestamp, decide: Decide, round: u32, new: BTreeMap<u32, Decision>, complete: bool) {
        let decisions = Decisions {
            turn: decide.turn,
            round,
            decided: new.into_iter().collect(),
            by: decide.by.user,
            role: Some(decide.by.role),
            token_creator: decide.by.token_creator,
            decided_at: now,
            continue_auto_approved: decide.continue_auto_approved,
        };
        if json_bytes(&decisions) > bounds::ENTRY_CONTENT_BYTES {
            let message = "the decisions are too large for one request: send them in parts";
            return self.refuse(decide.ticket, Error::invalid(Reason::TooLarge, message));
        }
        if !complete {
            let after = AfterAppend::PartlyDecided(decide.ticket, round);
            return self.append(now, vec![Entry::Decisions(decisions)], HeaderChange::default(), after);
        }
        self.waiters.decisions.push((decide.ticket, round));
        if let Some(record) = self.open_mut() {
            record.push(Entry::Decisions(decisions.clone()));
        }
        self.buffered.decisions = Some(decisions);
        self.advance(now);
    }

    /// Answers a request whose decisions are committed although decisions on other calls are missing.
    pub(super) fn answer_still_awaiting(&mut self, ticket: Ticket, round: u32) {
        let id = self.header.id.clone();
        let Some(record) = self.history.open() else { return };
        let turn = record.id(&id);
        let Some((waiting, pause)) = record.round(round).and_then(|round| Some((round, round.paused.as_ref()?))) else {
            return;
        };
        let missing = waiting.undecided().map(|call| call.view(turn.clone(), round)).collect();
        let expires_at = pause.expires_at;
        self.state = State::Waiting;
        self.answer(ticket, Answer::StillAwaiting { round, missing, expires_at });
    }

    pub(super) fn answer_decided(&mut self, ticket: Ticket, turn: u32, round: u32) {
        let answer = self.history.turn(turn).and_then(|record| {
            let closing = Box::new(record.answer_event(&self.header.id, round)?);
            let round = Box::new(record.round(round)?.view(record.id(&self.header.id)));
            Some(Answer::Decided { closing, round })
        });
        match answer {
            Some(answer) => self.answer(ticket, answer),
            None => self.refuse(ticket, Error::internal("a decided round has no answer")),
        }
    }

    /// Answers the requests that wait for the outcome of decisions.
    pub(super) fn answer_waiters(&mut self) {
        let Some(turn) = self.history.last().map(TurnRecord::number) else { return };
        for (ticket, round) in std::mem::take(&mut self.waiters.decisions) {
            self.answer_decided(ticket, turn, round);
        }
    }
}

/// Result of the comparison of a request with the recorded decisions.
struct Evaluation {
    round: u32,
    /// Decisions that are not recorded yet.
    new: BTreeMap<u32, Decision>,
    /// True if no decision is missing once `new` is recorded.
    complete: bool,
}

/// Returns the round of a request. All decisions of the request must belong to it.
fn requested_round(decide: &Decide) -> Result<u32, Error> {
    let first = decide.decisions.first().map(|requested| requested.round);
    let missing = || Error::invalid_field("round", "must be set if the request has no decisions");
    let round = decide.round.or(first).ok_or_else(missing)?;
    if decide.decisions.iter().any(|requested| requested.round != round) {
        return Err(Error::invalid_field("decisions", "all decisions of a request must belong to one round"));
    }
    Ok(round)
}

/// Returns the recorded decision. If the round is decided, a call that needed no decision counts as approved.
fn decided(round: &RoundRecord, call: &CallRecord) -> Option<Decision> {
    call.decision.clone().or_else(|| round.is_decided().then_some(Decision::Approve))
}

/// Returns an error unless a new decision may be recorded. `position`: index of the decision in the request.
fn check(
    position: usize,
    requested: &RequestedDecision,
    call: &CallRecord,
    turn: &TurnRecord,
    decide: &Decide,
) -> Result<(), Error> {
    check_edited_arguments(position, requested, call)?;
    let arguments = match &requested.decision {
        Decision::Reject { .. } => return Ok(()),
        Decision::ApproveEdited { arguments } => arguments,
        Decision::Approve => &call.call.arguments,
    };
    let accepted = &turn.accepted;
    let subject = (call.call.name.as_str(), call.call.access, arguments);
    policy::may_approve(&accepted.options.policy, subject, &decide.by, &accepted.user)?;
    decide.current.may_approve(subject, &decide.by, &accepted.user)
}

fn check_edited_arguments(position: usize, requested: &RequestedDecision, call: &CallRecord) -> Result<(), Error> {
    match (&requested.decision, &requested.problem) {
        (Decision::ApproveEdited { .. }, Some(problem)) => {
            let field = format!("decisions[{position}].approved_edited.arguments_json");
            let problem = format!("edited arguments of {}: {problem}", call.call.name);
            Err(Error::invalid_field(field, problem).with_reason(Reason::SchemaMismatch))
        }
        (Decision::ApproveEdited { .. }, None) if call.call.problem.is_some() => {
            Err(Error::precondition(Reason::NotAwaitingApproval, format!("{} cannot run", call.call.name)))
        }
        _ => Ok(()),
    }
}

pub(super) fn expired() -> Error {
    Error::new(Code::NotFound, Reason::TurnExpired, "the approval expired; no call ran")
}

fn not_waiting(round: u32) -> Error {
    Error::precondition(Reason::NotAwaitingApproval, format!("round {round} does not wait for decisions"))
}

fn unknown_call(position: usize, requested: &RequestedDecision) -> Error {
    let problem = format!("round {} has no call {}", requested.round, requested.index);
    Error::invalid_field(format!("decisions[{position}].call_id"), problem).with_reason(Reason::UnknownCall)
}

fn conflict(call: &CallRecord) -> Error {
    let message = format!("call {} of {} has another recorded decision", call.call.index, call.call.name);
    Error::precondition(Reason::DecisionConflict, message)
}

fn digest_mismatch(call: &CallRecord) -> Error {
    let (index, name) = (call.call.index, &call.call.name);
    let message = format!("call {index} of {name} has other arguments than those of the digest");
    Error::precondition(Reason::DigestMismatch, message)
}
