//! Invariant 7, and durability of acknowledged operations: compares the clients' logs with the journals.

use std::collections::BTreeMap;

use folio_history::journal::{Decision, End, Entry};
use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_types::{Reason, TurnId};

use super::Invariant::{Idempotent, Stored};
use super::journal::Turn;
use super::{Findings, ObservedAggregate, ObservedThread};
use crate::faults::log::{ClientDecision, ClientEvent, Decisions, Logged};

pub(super) fn check(
    all: &[(&ObservedThread, Vec<Turn<'_>>)],
    aggregates: &[ObservedAggregate],
    log: &[Logged],
    findings: &mut Findings,
) {
    let turns: BTreeMap<&TurnId, &Turn<'_>> =
        all.iter().flat_map(|(_, turns)| turns.iter().map(|turn| (&turn.id, turn))).collect();
    let mut final_answers: Vec<(&Decisions, &v1::ApproveResponse)> = Vec::new();
    for line in log {
        match &line.event {
            ClientEvent::Accepted { request, turn } => match turns.get(turn) {
                None => findings.add(Stored, turn, "the turn was acknowledged to a client, but is missing"),
                Some(found) if found.accepted.request != *request => {
                    findings.add(Stored, turn, format!("a client received the turn for {request}"));
                }
                Some(_) => {}
            },
            ClientEvent::Answered(decisions, answer) => {
                let Some(turn) = turns.get(&decisions.turn) else {
                    findings.add(
                        Stored,
                        &decisions.turn,
                        "an approval of the turn was answered, but the turn is missing",
                    );
                    continue;
                };
                check_recorded(turn, decisions, findings);
                check_answer(turn, decisions.round, answer, findings);
                let same = final_answers.iter().find(|(earlier, _)| *earlier == decisions);
                if let Some((_, earlier)) = same
                    && is_final(earlier)
                    && is_final(answer)
                    && **earlier != **answer
                {
                    let difference = first_difference(earlier, answer);
                    let reason =
                        format!("the same decisions on round {} got two answers: {difference}", decisions.round);
                    findings.add(Idempotent, &decisions.turn, reason);
                }
                if is_final(answer) && same.is_none() {
                    final_answers.push((decisions, answer));
                }
            }
            ClientEvent::Refused(decisions, Reason::TurnExpired) => {
                let ended = turns.get(&decisions.turn).and_then(|turn| turn.end());
                let expired = matches!(ended.map(|end| &end.end), Some(End::Expired));
                let reason = "a client received an expiry of a turn that did not expire";
                findings.add_unless(expired, Idempotent, &decisions.turn, reason);
            }
            ClientEvent::Created { id }
                if !aggregates.iter().any(|aggregate| aggregate.id == *id && aggregate.is_live) =>
            {
                findings.add(Stored, id, "the resource was acknowledged, but is missing");
            }
            _ => {}
        }
    }
    let mut requests: BTreeMap<(&str, &str), &TurnId> = BTreeMap::new();
    for (thread, turns) in all {
        for turn in turns {
            let (org, request) = (thread.org.as_str(), turn.accepted.request.as_str());
            if let Some(other) = requests.insert((org, request), &turn.id) {
                findings.add(Idempotent, &turn.id, format!("request {request} also became {other}"));
            }
        }
        for row in thread.requests.iter().filter(|row| row.turn > 0) {
            let is_same = turns.iter().any(|turn| turn.id.number == row.turn && turn.accepted.request == row.request);
            findings.add_unless(is_same, Stored, &thread.id, format!("request {} refers to another turn", row.request));
        }
    }
}

/// Returns true if a repeated request must get the same answer. A failure is replaced when the turn is resumed, and
/// further decisions continue the turn.
fn is_final(answer: &v1::ApproveResponse) -> bool {
    !matches!(answer.outcome, Some(Outcome::Failed(_) | Outcome::StillAwaiting(_)) | None)
}

/// Returns the first line of the debug representation that differs.
fn first_difference(earlier: &v1::ApproveResponse, answer: &v1::ApproveResponse) -> String {
    let (earlier, answer) = (format!("{earlier:#?}"), format!("{answer:#?}"));
    let differing = earlier.lines().zip(answer.lines()).find(|(one, other)| one != other);
    let (one, other) = differing.unwrap_or_default();
    format!("`{}` and `{}`", one.trim(), other.trim())
}

/// Checks that the journal contains every answered decision.
fn check_recorded(turn: &Turn<'_>, decisions: &Decisions, findings: &mut Findings) {
    let calls = turn.calls();
    for (call, verdict) in &decisions.on {
        let recorded = calls.get(&(call.round, call.index)).and_then(|call| call.decisions.first());
        let same = match (recorded.map(|(_, _, decision)| *decision), verdict) {
            (Some(Decision::Approve), ClientDecision::Approve)
            | (Some(Decision::Reject { .. }), ClientDecision::Reject) => true,
            (Some(Decision::ApproveEdited { arguments }), ClientDecision::Edit(sent)) => arguments == sent,
            _ => false,
        };
        findings.add_unless(same, Stored, call, "an answered decision is not recorded");
    }
}

/// Checks that the answer is the next pause or end in the journal.
fn check_answer(turn: &Turn<'_>, round: u32, answer: &v1::ApproveResponse, findings: &mut Findings) {
    let next = turn.entries.iter().find_map(|(_, entry)| match entry {
        Entry::Paused(paused) if paused.round > round => Some((paused.event, "awaiting_approval", Some(paused.round))),
        _ => None,
    });
    let next = next.or_else(|| turn.end().map(|end| (end.event, end_name(&end.end), None)));
    let reported = match &answer.outcome {
        Some(Outcome::AwaitingApproval(waiting)) => ("awaiting_approval", Some(waiting.round)),
        Some(Outcome::Completed(_)) => ("completed", None),
        Some(Outcome::Cancelled(_)) => ("cancelled", None),
        Some(Outcome::Superseded(_)) => ("superseded", None),
        Some(Outcome::Expired(_)) => ("expired", None),
        // A later end may replace a failure, and later decisions may complete partial ones.
        Some(Outcome::Failed(_) | Outcome::StillAwaiting(_)) | None => return,
    };
    match next {
        Some((event, name, paused)) if (name, paused) == reported && event == answer.event_number => {}
        other => findings.add(
            Idempotent,
            &turn.id,
            format!(
                "decisions on round {round} were answered {reported:?} (event {}), the journal contains {other:?}",
                answer.event_number
            ),
        ),
    }
}

/// Returns the name of an end in event names.
pub(super) fn end_name(end: &End) -> &'static str {
    match end {
        End::Completed { .. } => "completed",
        End::Failed { .. } => "failed",
        End::Cancelled => "cancelled",
        End::Expired => "expired",
        End::Superseded => "superseded",
    }
}
