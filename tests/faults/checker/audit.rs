//! The audit log contains each decision, permission and outcome of an ended turn exactly once, and nothing else.

use folio_history::journal::{Access, CallStatus, Decision};
use folio_types::{CallId, UserId};

use super::Invariant::Audit;
use super::journal::Turn;
use super::{Findings, ObservedAuditEntry};

pub(super) fn check(turn: &Turn<'_>, log: &[ObservedAuditEntry], findings: &mut Findings) {
    if turn.end().is_none() {
        return;
    }
    for ((round, index), call) in turn.calls() {
        let id = CallId::new(turn.id.clone(), round, index);
        let of_call: Vec<&ObservedAuditEntry> = log.iter().filter(|entry| entry.call.as_ref() == Some(&id)).collect();
        let mut expected: Vec<(&str, Option<&UserId>)> = Vec::new();
        if let Some((_, decisions, decision)) = call.decisions.first() {
            let kind = match decision {
                Decision::Approve => "call_approved",
                Decision::ApproveEdited { .. } => "call_edited",
                Decision::Reject { .. } => "call_rejected",
            };
            expected.push((kind, Some(&decisions.by)));
        } else if call.has_started() {
            expected.push(("call_allowed", None));
        }
        let permitted = call.has_started()
            || call.decisions.iter().any(|(_, _, decision)| !matches!(decision, Decision::Reject { .. }));
        if permitted && !call.results.is_empty() && !call.runs_again {
            expected.push(("call_effect", None));
        }
        for (kind, by) in &expected {
            let found: Vec<_> = of_call.iter().filter(|entry| entry.kind == *kind).collect();
            match found.as_slice() {
                [entry] if by.is_none_or(|by| entry.user.as_ref() == Some(by)) => {}
                [_] => findings.add(Audit, &id, format!("the audit log names another user for {kind}")),
                [] => findings.add(Audit, &id, format!("the audit log lacks {kind}")),
                several => findings.add(Audit, &id, format!("the audit log has {} of {kind}", several.len())),
            }
        }
        let is_unexpected = |entry: &&&ObservedAuditEntry| {
            let denied = entry.kind == "call_denied" && call.call.problem.is_some();
            !denied && !expected.iter().any(|(kind, _)| entry.kind == *kind)
        };
        for entry in of_call.iter().filter(is_unexpected) {
            findings.add(Audit, &id, format!("the journal has no {}", entry.kind));
        }
        let ran = call.results.iter().any(|(_, result)| result.status == CallStatus::Ok);
        if ran && call.call.access == Access::ReadWrite && !of_call.iter().any(|entry| entry.ok) {
            findings.add(Audit, &id, "the audit log has no successful run of the call");
        }
    }
}
