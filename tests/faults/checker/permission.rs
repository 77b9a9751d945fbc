//! Invariant 2: a call that needs approval runs only after an approval of exactly this call, which a user of its
//! organization sent in time.

use folio_history::journal::{Access, CallStatus, Decision};

use super::Findings;
use super::Invariant::Permission;
use super::journal::{ObservedCall, Position, Turn};
use crate::faults::log::{ClientDecision, ClientEvent, Logged};

pub(super) fn check(turn: &Turn<'_>, log: &[Logged], findings: &mut Findings) {
    for ((round, index), call) in turn.calls() {
        let subject = format!("{}.{round}.{index}", turn.id);
        let mut add = |reason: &str| findings.add(Permission, &subject, reason);
        for (_, decisions, decision) in &call.decisions {
            match turn.pause(round) {
                Some((_, paused)) if decisions.decided_at >= paused.expires_at => {
                    add("the call was decided after the expiry")
                }
                Some(_) => {}
                None => add("the call was decided without a pause"),
            }
            if !is_sent(log, &call, turn, decision) {
                add("no client sent the recorded decision");
            }
        }
        if call.decisions.len() > 1 && call.decisions.windows(2).any(|two| two[0].2 != two[1].2) {
            add("the call has two different decisions");
        }
        let Some(ran_at) = run_position(&call) else { continue };
        if call.call.access == Access::ReadOnly && turn.pause(round).is_none() {
            continue;
        }
        if !call.call.needs_approval {
            // A call without approval runs with its round, after the other calls of the round are decided.
            let open = turn.calls().into_iter().any(|((of, _), other)| {
                of == round && other.call.needs_approval && !other.decisions.iter().any(|(at, ..)| *at < ran_at)
            });
            if open && turn.pause(round).is_some() {
                add("the call ran before the other calls of its round were decided");
            }
            continue;
        }
        let approved = call.decisions.iter().any(|(at, _, decision)| {
            *at < ran_at && matches!(decision, Decision::Approve | Decision::ApproveEdited { .. })
        });
        if !approved {
            add("the call ran before an approval was recorded");
        }
    }
}

/// Returns the position at which the call ran: its intent, its group, or a result that is not synthetic.
fn run_position(call: &ObservedCall<'_>) -> Option<Position> {
    let results =
        call.results.iter().filter(|(_, result)| matches!(result.status, CallStatus::Ok | CallStatus::Conflict));
    call.intents.iter().map(|(at, _)| *at).chain(call.group).chain(results.map(|(at, _)| *at)).min()
}

/// Returns true if a client sent this decision.
fn is_sent(log: &[Logged], call: &ObservedCall<'_>, turn: &Turn<'_>, decision: &Decision) -> bool {
    log.iter().any(|line| {
        let ClientEvent::Deciding(decisions) = &line.event else { return false };
        let at = folio_types::CallId::new(turn.id.clone(), call.round, call.call.index);
        match (decisions.on.get(&at), decision) {
            (Some(ClientDecision::Approve), Decision::Approve)
            | (Some(ClientDecision::Reject), Decision::Reject { .. }) => true,
            (Some(ClientDecision::Edit(sent)), Decision::ApproveEdited { arguments }) => sent == arguments,
            _ => false,
        }
    })
}
