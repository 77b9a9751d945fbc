//! Repeated and failed calls of a turn. Each rule depends only on the turn's record, so every owner decides the same.
//!
//! | calls of the turn | effect |
//! |---|---|
//! | a call failed, and an identical call failed before | its result starts with advice |
//! | two identical calls failed | a further identical call is refused without running |
//! | three consecutive rounds in which every call failed, did not run or repeated another | the turn ends: `NO_PROGRESS` |
//!
//! A page text that the model no longer has may be read again: only a call of the last [`PAGE_TEXT_ROUNDS`] rounds makes the next
//! one a repetition.
//!
//! A rejected call has not failed, because an approver takes part in the turn. A call that did not run, because it refers
//! to a call that failed, has not failed either: after a correction of the other call, the same call may succeed.

use std::borrow::Cow;

use folio_history::journal::{CallResult, CallStatus};
use folio_history::{CallRecord, RoundRecord, TurnRecord};
use folio_tools::extraction::PAGE_TEXT_TOOL;
use folio_types::{Error, Reason, Timestamp};
use serde_json::Value;

use super::{Machine, references};
use crate::window::PAGE_TEXT_ROUNDS;

/// Number of identical failed calls after which a further one is refused.
const IDENTICAL_FAILURES_MAX: usize = 2;
/// Number of consecutive rounds without progress after which the turn ends.
// proto: Failed.error "in {} consecutive rounds"
const ROUNDS_WITHOUT_PROGRESS_MAX: usize = 3;

/// Result of a refused call.
pub(super) const REFUSED: &str = "Not executed: this call failed twice with the same arguments. Change the arguments \
    as the errors state, call another tool, or answer the user without this call.";
/// First line of the result of the second identical failed call.
const ADVICE: &str = "This call failed twice with the same arguments, and a further repetition is refused. Change the \
    arguments as the error states, call another tool, or answer the user without this call.\n";

/// The tool of a call, its arguments after an edit with ids in place of references, and the reason why the call cannot run.
/// Calls are identical if their identities are equal. The reason is a part, because invalid arguments are stored as an
/// empty object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CallIdentity<'a> {
    pub tool: &'a str,
    pub arguments: Cow<'a, Value>,
    pub problem: Option<&'a str>,
}

impl<'a> CallIdentity<'a> {
    pub(super) fn of(round: &'a RoundRecord, call: &'a CallRecord) -> Self {
        let arguments = references::arguments_to_run(round, call);
        Self { tool: &call.call.name, arguments, problem: call.call.problem.as_deref() }
    }
}

impl Machine {
    /// Ends the turn, because the model repeats itself or fails. The end is final: another model call would start from the
    /// same history.
    pub(super) fn end_without_progress(&mut self, now: Timestamp) {
        let message = format!(
            "the model made no progress: in {ROUNDS_WITHOUT_PROGRESS_MAX} consecutive rounds, every tool call failed or \
             repeated an earlier call; rephrase the message or use another model"
        );
        self.fail(now, Error::precondition(Reason::NoProgress, message), false);
    }
}

/// Returns true if a call must be refused, because identical calls of the turn failed too often.
pub(super) fn is_refused(record: &TurnRecord, call: &CallIdentity<'_>) -> bool {
    failures(record, call) >= IDENTICAL_FAILURES_MAX
}

/// Returns true if a call may run concurrently with these calls of its round. It must wait for the results of identical
/// calls if their failures could refuse it.
pub(super) fn may_run_with(
    record: &TurnRecord,
    round: &RoundRecord,
    others: &[&CallRecord],
    call: &CallIdentity<'_>,
) -> bool {
    let identical = others.iter().filter(|other| CallIdentity::of(round, other) == *call).count();
    failures(record, call).saturating_add(identical) < IDENTICAL_FAILURES_MAX
}

/// Inserts [`ADVICE`] into the result if the result is the second failure of identical calls. The record must not contain
/// the result yet.
pub(super) fn advise(record: &TurnRecord, result: &mut CallResult) {
    let round = record.round(result.round);
    let call = round.and_then(|round| Some(CallIdentity::of(round, round.call(result.index)?)));
    let is_executed = result.status == CallStatus::Failed && result.content != REFUSED;
    if call.is_some_and(|call| is_executed && failures(record, &call).saturating_add(1) == IDENTICAL_FAILURES_MAX) {
        result.content.insert_str(0, ADVICE);
    }
}

/// Returns true if every call of the newest rounds failed, did not run or repeated an earlier call. Each call must have a
/// result.
pub(super) fn is_stuck(record: &TurnRecord) -> bool {
    let Some(from) = record.rounds.len().checked_sub(ROUNDS_WITHOUT_PROGRESS_MAX) else { return false };
    record.rounds.iter().enumerate().skip(from).all(|(at, round)| {
        let is_answer = round.correction.is_some() || round.node_end().is_some();
        !is_answer
            && round.calls.iter().all(|call| {
                let is_failed = matches!(call.status(), Some(CallStatus::Failed | CallStatus::NotRun));
                let is_page_text = call.call.name == PAGE_TEXT_TOOL;
                let compared_from = if is_page_text { at.saturating_sub(PAGE_TEXT_ROUNDS) } else { 0 };
                let mut earlier = calls(record.rounds.iter().take(at).skip(compared_from));
                is_failed || earlier.any(|earlier| is_repetition(earlier, (round, call)))
            })
    })
}

fn is_repetition(earlier: (&RoundRecord, &CallRecord), call: (&RoundRecord, &CallRecord)) -> bool {
    let (earlier, call) = (CallIdentity::of(earlier.0, earlier.1), CallIdentity::of(call.0, call.1));
    earlier.tool == call.tool && earlier.arguments == call.arguments
}

fn failures(record: &TurnRecord, call: &CallIdentity<'_>) -> usize {
    let failed = calls(record.rounds.iter()).filter(|(_, other)| other.status() == Some(CallStatus::Failed));
    failed.filter(|(round, other)| CallIdentity::of(round, other) == *call).count()
}

/// Returns the calls of these rounds, each with its round.
fn calls<'a>(rounds: impl Iterator<Item = &'a RoundRecord>) -> impl Iterator<Item = (&'a RoundRecord, &'a CallRecord)> {
    rounds.flat_map(|round| round.calls.iter().map(move |call| (round, call)))
}
