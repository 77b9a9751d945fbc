//! Decisions about tool calls that wait for approval. No I/O.

use folio_proto::v1;
use folio_proto::v1::decision::Decision as Made;
use folio_types::Timestamp;
use serde_json::Value;

/// A tool call that waits for a decision, with the rule that requires it.
#[derive(Debug, Clone, PartialEq)]
pub struct Approval {
    pub turn_id: String,
    pub round: u32,
    pub call_id: String,
    pub tool: String,
    /// The arguments. A text that is no JSON remains a text.
    pub arguments: Value,
    /// True if the tool writes.
    pub is_write: bool,
    /// Name of the rule of the organization's policy. Empty: no rule matched, and calls of writing tools wait by default.
    pub rule: String,
    /// Minimum roles that may approve. Empty: each user with write access to the thread.
    pub roles: Vec<v1::Role>,
    /// True if another user than the requester of the turn must approve.
    pub is_requester_excluded: bool,
    /// True if the user of this client may approve the call.
    pub may_approve: bool,
    /// Time from which decisions are refused. None: unknown.
    pub expire_time: Option<Timestamp>,
    /// SHA-256 of the arguments; the decision is bound to it.
    pub digest: String,
}

/// A decision about a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Runs the call.
    Approve,
    /// Runs the call with these arguments.
    ApproveEdited(Value),
    /// Does not run the call. The model receives the reason.
    Reject(String),
    /// Leaves the decision to another user. No call of the round runs until every call that needs a decision has one.
    Leave,
}

/// Returns the calls of a round that need a decision. `approvable`: ids of the calls that the user may approve.
pub(crate) fn approvals(waiting: &v1::AwaitingApproval, approvable: &[String]) -> Vec<Approval> {
    let calls = waiting.pending.iter().filter(|call| call.needs_approval);
    let expire_time = waiting.expire_time.as_ref().and_then(time);
    calls
        .map(|call| {
            let rule = call.approval_requirement.clone().unwrap_or_default();
            Approval {
                turn_id: waiting.turn_id.clone(),
                round: waiting.round,
                call_id: call.call_id.clone(),
                tool: call.name.clone(),
                arguments: serde_json::from_str(&call.arguments_json)
                    .unwrap_or_else(|_| Value::from(call.arguments_json.as_str())),
                is_write: call.access() == v1::ToolAccess::ReadWrite,
                roles: rule.roles().collect(),
                rule: rule.rule,
                is_requester_excluded: rule.not_by_requester,
                may_approve: approvable.contains(&call.call_id),
                expire_time,
                digest: call.arguments_digest.clone(),
            }
        })
        .collect()
}

fn time(at: &prost_types::Timestamp) -> Option<Timestamp> {
    Timestamp::new(at.seconds, at.nanos).ok()
}

/// Returns the request with the decisions. None: calls need decisions, and all of them are left to other users.
pub(crate) fn approve_request(
    waiting: &v1::AwaitingApproval,
    decided: Vec<(Approval, Decision)>,
) -> Option<v1::ApproveRequest> {
    let needs_decisions = !decided.is_empty();
    let decisions: Vec<v1::Decision> =
        decided.into_iter().filter_map(|(call, decision)| made(call, decision)).collect();
    if needs_decisions && decisions.is_empty() {
        return None;
    }
    Some(v1::ApproveRequest {
        turn_id: waiting.turn_id.clone(),
        round: waiting.round,
        decisions,
        continue_auto_approved: true,
        ..v1::ApproveRequest::default()
    })
}

fn made(call: Approval, decision: Decision) -> Option<v1::Decision> {
    let decision = match decision {
        Decision::Approve => Made::Approved(v1::Approved {}),
        Decision::ApproveEdited(arguments) => {
            Made::ApprovedEdited(v1::ApprovedEdited { arguments_json: arguments.to_string() })
        }
        Decision::Reject(reason) => Made::Rejected(v1::Rejected { reason }),
        Decision::Leave => return None,
    };
    Some(v1::Decision { call_id: call.call_id, arguments_digest: call.digest, decision: Some(decision) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting() -> v1::AwaitingApproval {
        let rule = v1::ApprovalRequirement {
            rule: "four eyes".to_owned(),
            roles: vec![v1::Role::Admin.into()],
            not_by_requester: true,
        };
        let first = v1::Call {
            call_id: "1".to_owned(),
            name: "create_tag".to_owned(),
            arguments_json: r#"{"name":"ä"}"#.to_owned(),
            arguments_digest: "digest".to_owned(),
            access: v1::ToolAccess::ReadWrite.into(),
            needs_approval: true,
            approval_requirement: Some(rule),
            group: None,
        };
        let second = v1::Call { call_id: "2".to_owned(), ..v1::Call::default() };
        let third = v1::Call { call_id: "3".to_owned(), needs_approval: true, ..v1::Call::default() };
        v1::AwaitingApproval {
            turn_id: "turn".to_owned(),
            round: 2,
            pending: vec![first, second, third],
            ..v1::AwaitingApproval::default()
        }
    }

    #[test]
    fn an_approval_states_the_rule_the_roles_and_an_excluded_requester() {
        let found = approvals(&waiting(), &["3".to_owned()]);
        let [first, second] = found.as_slice() else { panic!("two calls need decisions: {found:?}") };
        assert_eq!((first.tool.as_str(), first.is_write), ("create_tag", true));
        assert_eq!(first.arguments, json!({"name": "ä"}));
        assert_eq!((first.rule.as_str(), first.roles.as_slice()), ("four eyes", [v1::Role::Admin].as_slice()));
        assert!(first.is_requester_excluded && !first.may_approve);
        assert!(second.rule.is_empty() && !second.is_requester_excluded && second.may_approve);
    }

    #[test]
    fn decisions_are_bound_to_the_arguments() {
        let waiting = waiting();
        let decide = |first, second| {
            let calls = approvals(&waiting, &[]);
            approve_request(&waiting, calls.into_iter().zip([first, second]).collect())
        };
        let edited = Decision::ApproveEdited(json!({"name": "ö"}));
        let request = decide(edited, Decision::Reject("no".to_owned())).unwrap();
        assert_eq!((request.turn_id.as_str(), request.round, request.continue_auto_approved), ("turn", 2, true));
        assert_eq!(request.decisions[0].arguments_digest, "digest");
        let arguments_json = r#"{"name":"ö"}"#.to_owned();
        let expected = Made::ApprovedEdited(v1::ApprovedEdited { arguments_json });
        assert_eq!(request.decisions[0].decision, Some(expected));
        let rejected = Made::Rejected(v1::Rejected { reason: "no".to_owned() });
        assert_eq!((request.decisions[1].call_id.as_str(), &request.decisions[1].decision), ("3", &Some(rejected)));

        let partly = decide(Decision::Leave, Decision::Approve).unwrap();
        let ids: Vec<&str> = partly.decisions.iter().map(|decision| decision.call_id.as_str()).collect();
        assert_eq!(ids, ["3"]);
        assert_eq!(decide(Decision::Leave, Decision::Leave), None);
        let continued = approve_request(&waiting, Vec::new()).expect("the round only waits to be continued");
        assert!(continued.decisions.is_empty());
    }
}
