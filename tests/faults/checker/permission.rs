//! Invariant 2: a call that needs approval runs only after an approval of exactly this call, which a user of its
//! organization sent in time.

use folio_history::journal::{Access, CallStatus, Decision};

use super::journal::{CallSeen, Position, Turn};
use super::{Broken, Findings};
use crate::faults::log::{ClientDecision, ClientEvent, Logged};

pub(super) fn check(turn: &Turn<'_>, log: &[Logged], findings: &mut Findings) {
    for ((round, index), call) in turn.calls() {
        let subject = format!("{}.{round}.{index}", turn.id);
        let mut add = |how: &str| findings.add(Broken::Permission, &subject, how);
        for (_, decisions, decision) in &call.decisions {
            match turn.pause(round) {
                Some((_, paused)) if decisions.decided_at >= paused.expires_at => add("it was decided too late"),
                Some(_) => {}
                None => add("it was decided without a pause"),
            }
            if !sent(log, &call, turn, decision) {
                add("no client sent the recorded decision");
            }
        }
        if call.decisions.len() > 1 && call.decisions.windows(2).any(|two| two[0].2 != two[1].2) {
            add("the call has two different decisions");
        }
        let Some(ran_at) = ran(&call) else { continue };
        if call.call.access == Access::ReadOnly && turn.pause(round).is_none() {
            continue;
        }
        if !call.call.needs_approval {
            // A call without approval runs with its round, after the other calls of the round are decided.
            let open = turn.calls().into_iter().any(|((of, _), other)| {
                of == round && other.call.needs_approval && !other.decisions.iter().any(|(at, ..)| *at < ran_at)
            });
            if open && turn.pause(round).is_some() {
                add("it ran before the others of its round were decided");
            }
            continue;
        }
        let approved = call.decisions.iter().any(|(at, _, decision)| {
            *at < ran_at && matches!(decision, Decision::Approve | Decision::ApproveEdited { .. })
        });
        if !approved {
            add("it ran, and no approval of it was recorded before");
        }
    }
}

/// Returns the position at which the call ran: its intent, or a result that is not synthetic.
fn ran(call: &CallSeen<'_>) -> Option<Position> {
    let results =
        call.results.iter().filter(|(_, result)| matches!(result.status, CallStatus::Ok | CallStatus::Conflict));
    call.intents.iter().map(|(at, _)| *at).chain(results.map(|(at, _)| *at)).min()
}

fn sent(log: &[Logged], call: &CallSeen<'_>, turn: &Turn<'_>, decision: &Decision) -> bool {
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
