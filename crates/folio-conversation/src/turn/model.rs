//! Model calls and their answers.

use std::borrow::Cow;
use std::collections::BTreeSet;

use folio_history::event::EventKind;
use folio_history::journal::{Access, Call, End, Entry, Round, SUMMARY_ROUND};
use folio_history::{RoundRecord, TurnRecord, json_bytes};
use folio_resources::policy::{ApprovalRequirement, Ruling};
use folio_tools::policy;
use folio_types::message::{FinishReason, Usage};
use folio_types::{Error, Reason, Timestamp, limits};
use serde_json::Value;

use super::effect::ModelCall;
use super::machine::{ActiveModelCall, State};
use super::progress::{self, CallIdentity};
use super::{CheckedCall, Delta, Effect, Machine, Reply, bounds, references};

/// Beginning of the message by which a model corrects its answer.
const CORRECTION: &str = "Your answer does not have the required format. Answer again with one JSON value that matches the \
    schema, and nothing else. Violations:\n";

impl Machine {
    /// Calls the model for the next round, unless the turn has no running time left. A turn with a direct call runs this
    /// call instead.
    pub(super) fn call_model(&mut self, now: Timestamp) {
        let Some(record) = self.history.open() else { return };
        if let Some(call) = record.accepted.options.direct_call.clone() {
            return self.direct_call(now, *call);
        }
        if self.summarize(now) {
            return;
        }
        let Some(record) = self.history.open() else { return };
        let limit = record.accepted.options.running_time();
        let time_left = limit.map(|limit| limit.saturating_sub(record.running_time(now)));
        if time_left.is_some_and(|left| left.is_zero()) {
            return self.fail(now, out_of_time(), false);
        }
        let round = record.newest_round().map_or(0, |newest| newest.round).saturating_add(1);
        let attempt = record.takeovers.saturating_add(1);
        let call = ModelCall {
            turn: record.id(&self.header.id),
            round,
            attempt,
            epoch: self.header.epoch,
            model: record.accepted.options.model.clone(),
            time_left,
        };
        self.state = State::Calling(ActiveModelCall { round, attempt, text: String::new(), thinking: String::new() });
        self.emit_node_started(round);
        self.emit(EventKind::RoundStarted { round, attempt });
        self.effects.push(Effect::CallModel(call));
    }

    fn is_calling(&self, round: u32, attempt: u32) -> bool {
        matches!(&self.state, State::Calling(calling) if calling.round == round && calling.attempt == attempt)
    }

    pub(super) fn model_delta(&mut self, round: u32, attempt: u32, delta: Delta) {
        // The JSON of a node is published as a whole when the node ends.
        let is_json = self.history.open().is_some_and(|record| record.node().is_some());
        let State::Calling(calling) = &mut self.state else { return };
        if (calling.round, calling.attempt) != (round, attempt) || round == SUMMARY_ROUND {
            return;
        }
        let kind = match delta {
            Delta::Thinking(text) => {
                calling.thinking.push_str(&text);
                EventKind::ThinkingDelta { text }
            }
            Delta::Text(_) if is_json => return,
            Delta::Text(text) => {
                calling.text.push_str(&text);
                EventKind::TextDelta { text }
            }
        };
        self.emit(kind);
    }

    pub(super) fn model_replied(&mut self, now: Timestamp, round: u32, attempt: u32, reply: Reply) {
        if !self.is_calling(round, attempt) {
            return;
        }
        if round == SUMMARY_ROUND {
            return self.summarized(now, reply);
        }
        if reply.calls.is_empty() {
            self.emit(EventKind::RoundFinished { round, model: reply.model.clone(), usage: reply.usage });
            if self.history.open().is_some_and(|record| record.node().is_some()) {
                return self.node_replied(now, round, reply);
            }
            return match self.answer_problem(&reply) {
                None => self.complete(now, reply),
                Some(problem) => self.correct(now, round, reply, &problem),
            };
        }
        let Some(record) = self.open_mut() else { return };
        let round = as_round(record, round, reply);
        record.push(Entry::Round(Box::new(round)));
        self.emit_calls();
        self.advance(now);
    }

    /// Returns why an answer without calls does not match the answer type of the turn. None: it matches.
    fn answer_problem(&self, reply: &Reply) -> Option<String> {
        let record = self.history.open()?;
        record.accepted.options.answer_schema()?;
        let is_too_large = !bounds::answer_fits(&reply.text, json_bytes(&record.working));
        let too_large = is_too_large.then(|| "#: the answer is too large".to_owned());
        reply.answer_problem.clone().or(too_large)
    }

    /// Lets the model correct an answer that does not match the answer type of the turn. A second such answer, and one in the
    /// last permitted round, fails the turn.
    fn correct(&mut self, now: Timestamp, round: u32, reply: Reply, problem: &str) {
        if self.may_correct(round) {
            return self.request_correction(now, round, reply, problem);
        }
        let Some(record) = self.open_mut() else { return };
        record.usage = record.usage.plus(reply.usage);
        self.fail_without_answer(now, "the model's answer does not match the answer type of the profile");
    }

    /// Returns true if the model may correct its answer in this round: once in a turn, or in a node of its graph, and not in the
    /// last permitted round.
    pub(super) fn may_correct(&self, round: u32) -> bool {
        let Some(record) = self.history.open() else { return false };
        let node = record.node();
        let mut own = record.rounds.iter().filter(|round| node.is_none_or(|node| round.is_of_node(&node.name)));
        let was_corrected = own.any(|round| round.correction.is_some());
        !was_corrected && round < self.rounds_max(record)
    }

    /// Calls the model again with the violations of its answer.
    pub(super) fn request_correction(&mut self, now: Timestamp, round: u32, reply: Reply, problem: &str) {
        let Some(record) = self.open_mut() else { return };
        let mut round = as_round(record, round, reply);
        let mut problem = problem.to_owned();
        bounds::fit_correction(&mut problem);
        round.correction = Some(format!("{CORRECTION}{problem}"));
        bounds::fit_round(&mut round);
        record.push(Entry::Round(Box::new(round)));
        self.buffer_round();
        self.advance(now);
    }

    /// Fails a turn that requires JSON and has none. The end is final: another model call would start from the same history.
    fn fail_without_answer(&mut self, now: Timestamp, message: &str) {
        self.fail(now, Error::precondition(Reason::AnswerMismatch, message), false);
    }

    /// Counts the newest round, which is not appended yet, as buffered.
    pub(super) fn buffer_round(&mut self) {
        let Some(record) = self.history.open() else { return };
        let bytes = record.newest_round().map_or(0, |round| json_bytes(&round.entry(record.number())));
        self.buffered.bytes = self.buffered.bytes.saturating_add(bytes);
    }

    /// Ends the turn with the answer of the model.
    fn complete(&mut self, now: Timestamp, reply: Reply) {
        let Some(record) = self.open_mut() else { return };
        record.usage = record.usage.plus(reply.usage);
        let finish = if reply.finish == FinishReason::ToolCalls { FinishReason::Stop } else { reply.finish };
        self.end(now, End::Completed { text: reply.text, thinking: reply.thinking, finish });
    }

    /// Publishes the calls of the newest round, which is not appended yet.
    pub(super) fn emit_calls(&mut self) {
        let Some(record) = self.history.open() else { return };
        let turn = record.id(&self.header.id);
        let Some(round) = record.newest_round() else { return };
        let calls = round.calls.iter().map(|call| call.view(turn.clone(), round.round)).collect();
        self.buffer_round();
        self.emit(EventKind::ToolCalls { calls });
    }

    /// Fails the turn because its model call failed. Every call of earlier rounds has a result.
    pub(super) fn model_failed(&mut self, now: Timestamp, at: (u32, u32), error: Error, retriable: bool, usage: Usage) {
        if !self.is_calling(at.0, at.1) {
            return;
        }
        if at.0 == SUMMARY_ROUND {
            return self.not_summarized(now, usage);
        }
        if let Some(record) = self.open_mut() {
            record.usage = record.usage.plus(usage);
        }
        self.fail(now, error, retriable);
    }

    /// Returns the maximum number of model calls of the turn.
    pub(super) fn rounds_max(&self, record: &TurnRecord) -> u32 {
        record.accepted.options.rounds_max.clamp(1, limits::ROUNDS_MAX)
    }

    /// Ends a turn whose last permitted round requested calls, which do not run, or ended a node, whose event was sent.
    pub(super) fn end_at_max_rounds(&mut self, now: Timestamp) {
        let newest = self.history.open().and_then(TurnRecord::newest_round);
        if let Some(finished) = newest.filter(|round| round.node_end().is_none()).map(round_finished_event) {
            self.emit(finished);
        }
        self.end_at_limit(now, "(The maximum number of tool rounds was reached.)");
    }

    /// Ends a turn that reached a limit before the model answered.
    pub(super) fn end_at_limit(&mut self, now: Timestamp, text: &str) {
        let has_type =
            |record: &TurnRecord| record.accepted.options.answer_schema().is_some() || record.node().is_some();
        if self.history.open().is_some_and(has_type) {
            return self.fail_without_answer(now, "the turn reached a limit before the model gave its answer");
        }
        let (text, thinking) = (text.to_owned(), Vec::new());
        self.end(now, End::Completed { text, thinking, finish: FinishReason::MaxRounds });
    }
}

/// Returns the error of a turn that has no running time left.
pub(crate) fn out_of_time() -> Error {
    Error::precondition(Reason::RunningTimeExceeded, "the turn reached the running time that its profile permits")
}

pub(super) fn round_finished_event(round: &RoundRecord) -> EventKind {
    EventKind::RoundFinished { round: round.round, model: round.model.clone(), usage: round.usage }
}

/// Converts an answer to a round, and decides which of its calls need approval.
pub(super) fn as_round(record: &TurnRecord, round: u32, reply: Reply) -> Round {
    let mut calls = reply.calls;
    bounds::fit_calls(&mut calls);
    let calls = as_calls(record, calls);
    let mut round = Round {
        turn: record.number(),
        round,
        model: reply.model,
        text: reply.text,
        thinking: reply.thinking,
        calls,
        results: Vec::new(),
        usage: reply.usage,
        correction: None,
        node: record.round_node(),
    };
    bounds::fit_round(&mut round);
    round
}

fn as_calls(record: &TurnRecord, checked: Vec<CheckedCall>) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::with_capacity(checked.len());
    // Positions of the calls that can never run.
    let mut stopped = BTreeSet::new();
    for (call, index) in checked.into_iter().zip(1..) {
        let is_stopped = references::is_stopped(&calls, &stopped, &call.arguments);
        let call = as_call(record, index, call, is_stopped);
        if is_stopped || call.problem.is_some() {
            stopped.insert(calls.len());
        }
        calls.push(call);
    }
    calls
}

/// Ruling of a turn's policy and options on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Runs,
    /// The call waits for a decision. None: no rule requires it.
    Waits(Option<ApprovalRequirement>),
    /// A rule denies the call. The text is the tool result.
    Denied(String),
}

/// Evaluates the organization's policy. If no rule matches, the recorded profile of the turn and then the turn's options
/// decide.
pub(super) fn verdict(record: &TurnRecord, tool: &str, access: Access, arguments: &Value) -> Verdict {
    let options = &record.accepted.options;
    let rule = policy::rule(&options.policy, tool, access, arguments);
    match rule.as_deref().map(|rule| (rule, &rule.ruling)) {
        Some((rule, Ruling::Deny)) => Verdict::Denied(policy::denial(rule)),
        Some((_, Ruling::Allow)) => Verdict::Runs,
        Some((rule, Ruling::Ask(approver))) => {
            Verdict::Waits(Some(ApprovalRequirement { rule: rule.name.clone(), approver: approver.clone() }))
        }
        None => {
            if options.waits(tool, access) {
                Verdict::Waits(None)
            } else {
                Verdict::Runs
            }
        }
    }
}

/// Converts a call. A call that cannot run, is denied, failed too often or refers to such a call (`is_stopped`) never waits.
fn as_call(record: &TurnRecord, index: u32, call: CheckedCall, is_stopped: bool) -> Call {
    let (mut problem, mut approval) = (call.problem, None);
    if problem.is_none() {
        match verdict(record, &call.name, call.access, &call.arguments) {
            Verdict::Runs => {}
            Verdict::Waits(requirement) => approval = Some(requirement),
            Verdict::Denied(denial) => problem = Some(denial),
        }
    }
    problem.iter_mut().for_each(bounds::fit_problem);
    let arguments = Cow::Borrowed(&call.arguments);
    let is_refused =
        progress::is_refused(record, &CallIdentity { tool: &call.name, arguments, problem: problem.as_deref() });
    if is_refused {
        problem = Some(progress::REFUSED.to_owned());
    }
    let approval = approval.filter(|_| problem.is_none() && !is_stopped);
    Call {
        index,
        provider_id: call.provider_id,
        needs_approval: approval.is_some(),
        approval_requirement: approval.flatten(),
        name: call.name,
        arguments: call.arguments,
        access: call.access,
        problem,
        repairs: call.repairs,
    }
}
