//! Calls that refer to earlier calls of their round. A call runs with the ids in the recorded results. Each rule depends only
//! on the turn's record, so every owner decides the same.
//!
//! | earlier call | policy on the arguments with the ids | effect |
//! |---|---|---|
//! | has no result | | the call waits for it |
//! | did not succeed, or its result lacks the field | | the call does not run |
//! | succeeded | permits the call, or requires the approval that the call has | the call runs |
//! | succeeded | denies the call | the call fails |
//! | succeeded | requires an approval that the call lacks | the next round repeats the call with the ids, and waits |

use std::borrow::Cow;
use std::collections::BTreeSet;

use folio_history::event::EventKind;
use folio_history::journal::{Call, CallStatus, Decision, Entry};
use folio_history::reference::{Reference, Resolution, references, replace_references};
use folio_history::{CallRecord, RoundRecord, TurnRecord};
use folio_types::Timestamp;
use folio_types::message::{FinishReason, Usage};
use serde_json::Value;

use super::model::{Verdict, as_round, verdict};
use super::{CheckedCall, Machine, Reply, bounds};

/// Result of a call that the next round repeats.
const REPEATED: &str = "Not run: with the ids in place of its references, the organization's policy requires another \
    approval. The next round repeats this call with the ids.";

impl Machine {
    /// Repeats calls of the newest round with their ids in a round of their own, which waits for decisions. Every other
    /// call of the newest round must have a result.
    pub(super) fn repeat_calls(&mut self, now: Timestamp, repeated: &BTreeSet<u32>) {
        let Some(record) = self.history.open() else { return };
        let Some(round) = record.newest_round() else { return };
        let (number, next) = (round.round, round.round.saturating_add(1));
        let reply = Reply {
            model: round.model.clone(),
            text: String::new(),
            thinking: Vec::new(),
            calls: repeated_calls(round, repeated),
            finish: FinishReason::ToolCalls,
            usage: Usage::default(),
            answer_problem: None,
        };
        let attempt = record.takeovers.saturating_add(1);
        let entry = as_round(record, next, reply);
        for index in repeated {
            self.record_result(now, bounds::not_run(number, *index, CallStatus::NotRun, REPEATED));
        }
        self.emit(EventKind::RoundStarted { round: next, attempt });
        let Some(record) = self.open_mut() else { return };
        record.push(Entry::Round(Box::new(entry)));
        self.emit_calls();
        self.advance(now);
    }
}

/// Returns the arguments with which a call runs: after an edit, and with ids in place of references. References without
/// ids stay.
pub(super) fn arguments_to_run<'a>(round: &RoundRecord, call: &'a CallRecord) -> Cow<'a, Value> {
    match round.resolve(call) {
        Resolution::Ready(arguments) => arguments,
        Resolution::Waiting | Resolution::Failed(..) => Cow::Borrowed(call.arguments()),
    }
}

/// Returns the arguments of a call with the ids in place of its references. None: the call has no references or an
/// intent, or its references have no ids.
pub(super) fn resolved(round: &RoundRecord, call: &CallRecord) -> Option<Value> {
    match round.resolve(call) {
        Resolution::Ready(Cow::Owned(arguments)) => Some(arguments),
        _ => None,
    }
}

/// Returns the reason why a rule denies a call with its ids. None: no rule denies it, or the call has no references.
pub(super) fn denial(record: &TurnRecord, round: &RoundRecord, call: &CallRecord) -> Option<String> {
    match verdict(record, &call.call.name, call.call.access, &resolved(round, call)?) {
        Verdict::Denied(denial) => Some(denial),
        Verdict::Runs | Verdict::Waits(_) => None,
    }
}

/// Returns the indices of the unanswered calls that the next round must repeat: their ids need an approval that they
/// lack, or they refer to such a call.
pub(super) fn repeated(record: &TurnRecord, round: &RoundRecord) -> BTreeSet<u32> {
    let mut repeated = BTreeSet::new();
    for call in round.unanswered() {
        let mut earlier = references(call.arguments()).filter_map(|reference| round.referred(call, &reference));
        if earlier.any(|earlier| repeated.contains(&earlier.call.index)) || lacks_approval(record, round, call) {
            repeated.insert(call.call.index);
        }
    }
    repeated
}

/// Returns true if the policy requires an approval of the call with its ids, and the decision on the call with its
/// references was not made under the same rule.
fn lacks_approval(record: &TurnRecord, round: &RoundRecord, call: &CallRecord) -> bool {
    let Some(arguments) = resolved(round, call) else { return false };
    let verdict_on = |arguments: &Value| verdict(record, &call.call.name, call.call.access, arguments);
    let required = verdict_on(&arguments);
    let is_approved = matches!(call.decision, Some(Decision::Approve | Decision::ApproveEdited { .. }));
    match &required {
        Verdict::Runs | Verdict::Denied(_) => false,
        // No rule matches: any approval suffices.
        Verdict::Waits(None) => !is_approved,
        Verdict::Waits(Some(_)) => !is_approved || verdict_on(call.arguments()) != required,
    }
}

/// Returns the calls of a round with the ids in place of references to calls that ran, and with the new numbers in
/// references to repeated calls.
fn repeated_calls(round: &RoundRecord, repeated: &BTreeSet<u32>) -> Vec<CheckedCall> {
    let calls: Vec<&CallRecord> = round.calls.iter().filter(|call| repeated.contains(&call.call.index)).collect();
    let new_text = |from: &CallRecord, reference: &Reference<'_>| {
        let earlier = round.referred(from, reference)?;
        if !repeated.contains(&earlier.call.index) {
            return reference.value(earlier);
        }
        let before = calls.iter().filter(|call| call.call.index <= earlier.call.index);
        let nth = before.filter(|call| call.call.name == earlier.call.name).count();
        Some(Reference { nth, ..*reference }.to_string())
    };
    let repeat = |call: &&CallRecord| {
        let is_edited = matches!(call.decision, Some(Decision::ApproveEdited { .. }));
        CheckedCall {
            provider_id: call.call.provider_id.clone(),
            name: call.call.name.clone(),
            arguments: replace_references(call.arguments(), |_, reference| new_text(call, reference)),
            access: call.call.access,
            problem: None,
            repairs: if is_edited { Vec::new() } else { call.call.repairs.clone() },
        }
    };
    calls.iter().map(repeat).collect()
}

/// Returns the result of a call whose reference has no id. `status`: that of the earlier call.
pub(super) fn no_id(reference: &Reference<'_>, status: Option<CallStatus>) -> String {
    let Reference { tool, field, .. } = reference;
    let cause = match status {
        None => "this round has no such call before this one".to_owned(),
        Some(CallStatus::Ok) => format!("the result of {tool} has no {field}"),
        Some(CallStatus::Rejected) => format!("the user rejected that call of {tool}"),
        Some(CallStatus::Failed) => format!("that call of {tool} failed"),
        Some(CallStatus::Conflict) => format!("the target of that call of {tool} changed"),
        Some(CallStatus::Unknown) => format!("the outcome of that call of {tool} is unknown"),
        Some(CallStatus::Cancelled | CallStatus::Expired | CallStatus::Superseded | CallStatus::NotRun) => {
            format!("that call of {tool} did not run")
        }
    };
    format!("Not run: the arguments refer to {reference}, but {cause}.")
}

/// Returns true if a call with these arguments can never run, because it refers to no earlier call, or to one of
/// `stopped`. `earlier`: the calls before it. `stopped`: positions of those that can never run.
pub(super) fn is_stopped(earlier: &[Call], stopped: &BTreeSet<usize>, arguments: &Value) -> bool {
    let target = |reference: Reference<'_>| reference.target(earlier.iter().map(|call| call.name.as_str()));
    references(arguments).any(|reference| target(reference).is_none_or(|at| stopped.contains(&at)))
}
