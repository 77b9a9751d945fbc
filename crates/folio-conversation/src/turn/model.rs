//! Model calls and their answers.

use folio_history::event::EventKind;
use folio_history::journal::{Access, Call, End, Entry, Round};
use folio_history::{RoundRecord, TurnRecord};
use folio_resources::policy::{ApprovalRequirement, Ruling};
use folio_tools::policy;
use folio_types::message::{FinishReason, Usage};
use folio_types::{Error, Timestamp, limits};

use super::effect::ModelCall;
use super::machine::{ActiveModelCall, State};
use super::progress::{self, CallIdentity};
use super::{CheckedCall, Delta, Effect, Machine, Reply, bounds};

impl Machine {
    /// Calls the model for the next round.
    pub(super) fn call_model(&mut self) {
        let Some(record) = self.history.open() else { return };
        let round = record.newest_round().map_or(0, |newest| newest.round).saturating_add(1);
        let attempt = record.takeovers.saturating_add(1);
        let call = ModelCall {
            turn: record.id(&self.header.id),
            round,
            attempt,
            epoch: self.header.epoch,
            model: record.accepted.options.model.clone(),
        };
        self.state = State::Calling(ActiveModelCall { round, attempt, text: String::new(), thinking: String::new() });
        self.emit(EventKind::RoundStarted { round, attempt });
        self.effects.push(Effect::CallModel(call));
    }

    fn is_calling(&self, round: u32, attempt: u32) -> bool {
        matches!(&self.state, State::Calling(calling) if calling.round == round && calling.attempt == attempt)
    }

    pub(super) fn model_delta(&mut self, round: u32, attempt: u32, delta: Delta) {
        let State::Calling(calling) = &mut self.state else { return };
        if (calling.round, calling.attempt) != (round, attempt) {
            return;
        }
        let kind = match delta {
            Delta::Thinking(text) => {
                calling.thinking.push_str(&text);
                EventKind::ThinkingDelta { text }
            }
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
        if reply.calls.is_empty() {
            self.emit(EventKind::RoundFinished { round, model: reply.model.clone(), usage: reply.usage });
            return self.complete(now, reply);
        }
        let Some(record) = self.open_mut() else { return };
        let round = as_round(record, round, reply);
        record.push(Entry::Round(Box::new(round)));
        self.emit_calls();
        self.advance(now);
    }

    /// Ends the turn with the answer of the model.
    fn complete(&mut self, now: Timestamp, reply: Reply) {
        let Some(record) = self.open_mut() else { return };
        record.usage = record.usage.plus(reply.usage);
        let finish = if reply.finish == FinishReason::ToolCalls { FinishReason::Stop } else { reply.finish };
        self.end(now, End::Completed { text: reply.text, thinking: reply.thinking, finish });
    }

    fn emit_calls(&mut self) {
        let Some(record) = self.history.open() else { return };
        let turn = record.id(&self.header.id);
        let Some(round) = record.newest_round() else { return };
        let calls = round.calls.iter().map(|call| call.view(turn.clone(), round.round)).collect();
        let bytes = folio_history::json_bytes(&round.entry(turn.number));
        self.buffered.bytes = self.buffered.bytes.saturating_add(bytes);
        self.emit(EventKind::ToolCalls { calls });
    }

    /// Fails the turn because its model call failed. Every call of earlier rounds has a result.
    pub(super) fn model_failed(&mut self, now: Timestamp, at: (u32, u32), error: Error, retriable: bool, usage: Usage) {
        if !self.is_calling(at.0, at.1) {
            return;
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

    /// Ends a turn whose last permitted round requested calls. These calls do not run.
    pub(super) fn end_at_max_rounds(&mut self, now: Timestamp) {
        if let Some(finished) = self.history.open().and_then(TurnRecord::newest_round).map(round_finished_event) {
            self.emit(finished);
        }
        let text = "(The maximum number of tool rounds was reached.)".to_owned();
        self.end(now, End::Completed { text, thinking: Vec::new(), finish: FinishReason::MaxRounds });
    }
}

pub(super) fn round_finished_event(round: &RoundRecord) -> EventKind {
    EventKind::RoundFinished { round: round.round, model: round.model.clone(), usage: round.usage }
}

/// Converts an answer to a round, and decides which of its calls need approval.
fn as_round(record: &TurnRecord, round: u32, reply: Reply) -> Round {
    let mut calls = reply.calls;
    bounds::fit_calls(&mut calls);
    let calls = calls.into_iter().zip(1..).map(|(call, index)| as_call(record, index, call)).collect();
    let mut round = Round {
        turn: record.number(),
        round,
        model: reply.model,
        text: reply.text,
        thinking: reply.thinking,
        calls,
        results: Vec::new(),
        usage: reply.usage,
    };
    bounds::fit_round(&mut round);
    round
}

/// Converts a call. The organization's policy decides whether it needs approval; if no rule matches, a write needs
/// approval unless the turn's options approve its tool. A call that cannot run, is denied or failed too often never waits.
fn as_call(record: &TurnRecord, index: u32, call: CheckedCall) -> Call {
    let options = &record.accepted.options;
    let matching = || policy::rule(&options.policy, &call.name, call.access, &call.arguments);
    let rule = if call.problem.is_none() { matching() } else { None };
    let rule = rule.as_deref();
    let mut problem = call.problem.or_else(|| rule.filter(|rule| rule.ruling == Ruling::Deny).map(policy::denial));
    problem.iter_mut().for_each(bounds::fit_problem);
    let identity = CallIdentity { tool: &call.name, arguments: &call.arguments, problem: problem.as_deref() };
    if progress::is_refused(record, identity) {
        problem = Some(progress::REFUSED.to_owned());
    }
    let is_waiting = match rule.map(|rule| &rule.ruling) {
        Some(Ruling::Ask(_)) => true,
        Some(Ruling::Allow | Ruling::Deny) => false,
        None => {
            let allowed = options.auto_approve || options.auto_approved_tools.contains(&call.name);
            call.access == Access::ReadWrite && !allowed
        }
    };
    let needs_approval = is_waiting && problem.is_none();
    let approval_requirement = rule.filter(|_| needs_approval).and_then(|rule| match &rule.ruling {
        Ruling::Ask(approver) => Some(ApprovalRequirement { rule: rule.name.clone(), approver: approver.clone() }),
        Ruling::Allow | Ruling::Deny => None,
    });
    Call {
        index,
        provider_id: call.provider_id,
        needs_approval,
        approval_requirement,
        name: call.name,
        arguments: call.arguments,
        access: call.access,
        problem,
        repairs: call.repairs,
    }
}
