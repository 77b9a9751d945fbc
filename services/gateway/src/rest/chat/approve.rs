//! The route that decides the calls for which a turn waits.

use std::collections::HashSet;

use folio_history::command::{ApproveAnswer, ApproveCommand, CallDecision};
use folio_history::event::TurnView;
use folio_history::journal::Decision;
use folio_operations::conversations::GetTurn;
use folio_proto::approve as validation;
use folio_types::{CallId, DocumentId, Error, Reason, TurnId};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::result::{PendingCalls, TurnResult, executed, given};
use super::stream::turn_result;
use super::{require_document, visible_thread};
use crate::rest::extract::{Client, Id, Json};
use crate::rest::failure::{Failure, InvalidValue};
use crate::rest::reply::Reply;

const NOT_FOUND: &str = "Turn expired or not found";

/// Decisions on the calls of a turn. Calls that need a decision and are left out are rejected.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ApproveBody {
    /// The turn that waits.
    turn_id: String,
    /// The decisions.
    approvals: Vec<Approval>,
    /// The thread of the turn. Default: not checked.
    thread_id: Option<String>,
}

/// A decision on a call.
#[derive(Debug, Deserialize, ToSchema)]
pub(in crate::rest) struct Approval {
    /// The call.
    call_id: String,
    /// True: the call runs. False: the call is rejected.
    approved: bool,
    /// The reason of a rejection, for the model.
    reason: Option<String>,
    /// The complete arguments with which an approved call runs. Default: those of the model.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Value>,
}

pub(super) async fn approve(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Json(body): Json<ApproveBody>,
) -> Reply<Json<TurnResult>> {
    require_document(&client, &document_id).await?;
    let turn_id: TurnId = body.turn_id.parse().map_err(|_: Error| not_found())?;
    let is_other_thread = body.thread_id.as_ref().is_some_and(|id| *id != turn_id.thread.to_string());
    if is_other_thread {
        return Err(not_found());
    }
    // A missing turn and one of another document have the same answer.
    visible_thread(&client, &document_id, turn_id.thread.clone()).await.map_err(hidden)?;
    let turn = client.run(GetTurn { turn_id }).await.map_err(hidden)?;
    let command = command(&turn, body.approvals, true).map_err(refused)?;
    let round = command.round.unwrap_or(1);
    match client.run(command).await.map_err(refused)? {
        ApproveAnswer::Reached { closing, round } => turn_result(&client, &closing, round.round).await.map(Json),
        ApproveAnswer::StillAwaiting { turn: turn_id, missing, expires_at, .. } => {
            let waiting = turn.rounds.iter().find(|found| found.round == round);
            let last = waiting.map(|round| (round.text.clone(), given(&round.thinking))).unwrap_or_default();
            let pending = PendingCalls::new(&turn_id, &missing, expires_at);
            let rounds = executed(&turn.rounds, round);
            Ok(Json(TurnResult::new(last, (&turn.working).into(), rounds, Some(pending))))
        }
    }
}

/// Returns the command of decisions on a turn. `reject_undecided`: true if calls that need a decision and are left out are rejected.
///
/// # Errors
/// Status 422 for an unknown call. `NOT_AWAITING_APPROVAL` if there are no decisions and the turn does not wait.
pub(in crate::rest) fn command(
    turn: &TurnView,
    approvals: Vec<Approval>,
    reject_undecided: bool,
) -> Result<ApproveCommand, Failure> {
    let newest = turn.rounds.last().map(|round| round.round);
    let mut decisions: Vec<CallDecision> = Vec::new();
    let mut seen = HashSet::new();
    for (at, approval) in approvals.into_iter().enumerate() {
        let call = approval.call_id.parse::<CallId>().ok();
        let call = call.filter(|call| is_call(turn, call)).ok_or_else(|| unknown_call(at))?;
        let is_repeated = !seen.insert(call.clone());
        let is_of_other_round = decisions.first().is_some_and(|first| first.call.round != call.round);
        if is_repeated || is_of_other_round {
            return Err(unknown_call(at));
        }
        decisions.push(CallDecision { call, decision: decision(approval), digest: None });
    }
    let waiting = newest.filter(|_| !turn.pending.is_empty());
    let not_waiting = || Error::precondition(Reason::NotAwaitingApproval, "the turn does not wait for decisions");
    let round = decisions.first().map(|first| first.call.round).or(waiting).ok_or_else(not_waiting)?;
    let command = ApproveCommand {
        turn: turn.turn.clone(),
        round: Some(round),
        decisions,
        reject_undecided,
        continue_auto_approved: true,
    };
    Ok(validation::parse(validation::encode(&command))?)
}

fn is_call(turn: &TurnView, call: &CallId) -> bool {
    turn.rounds.iter().flat_map(|round| &round.calls).any(|known| known.id == *call)
}

fn decision(Approval { approved, reason, arguments, .. }: Approval) -> Decision {
    match (approved, arguments) {
        (true, Some(arguments)) => Decision::ApproveEdited { arguments },
        (true, None) => Decision::Approve,
        (false, _) => Decision::Reject { reason: reason.filter(|reason| !reason.trim().is_empty()) },
    }
}

fn unknown_call(at: usize) -> Failure {
    let location = vec![json!("body"), json!("approvals"), json!(at), json!("call_id")];
    let message = "Value error, the turn has no such call, or the call is named twice".to_owned();
    Failure::unprocessable(&[InvalidValue { kind: "value_error", location, message }])
}

fn not_found() -> Failure {
    Failure::bad_request(NOT_FOUND)
}

/// Replaces the error of a missing thread or turn.
fn hidden(failure: Failure) -> Failure {
    if failure.is_not_found() { not_found() } else { failure }
}

fn refused(failure: Failure) -> Failure {
    let conflict = "Decisions conflict with those already made";
    let failure = failure.when(Reason::DecisionConflict, StatusCode::CONFLICT, conflict);
    [Reason::TurnExpired, Reason::TurnEnded, Reason::NotAwaitingApproval]
        .into_iter()
        .fold(failure, |failure, reason| failure.when(reason, StatusCode::BAD_REQUEST, NOT_FOUND))
}

#[cfg(test)]
mod tests {
    use crate::rest::chat::result::tests::{call, round, turn};

    use super::*;

    fn waiting() -> TurnView {
        let (pending, rounds) = (vec![call(2, 1, true), call(2, 2, false)], vec![round(1, 2), round(2, 0)]);
        TurnView { pending, rounds, ..TurnView::new(turn(), "m", "hello") }
    }

    fn decided(body: Value) -> Result<ApproveCommand, Failure> {
        let body = json!({ "turn_id": turn(), "approvals": body });
        command(&waiting(), serde_json::from_value::<ApproveBody>(body).unwrap().approvals, true)
    }

    #[test]
    fn calls_that_are_left_out_are_rejected_if_they_need_a_decision() {
        let id = call(2, 1, true).id;
        let command = decided(json!([{ "call_id": id.to_string(), "approved": true }])).unwrap();
        assert_eq!((command.round, command.reject_undecided, command.continue_auto_approved), (Some(2), true, true));
        assert_eq!(command.decisions, [CallDecision { call: id, decision: Decision::Approve, digest: None }]);
        assert_eq!(decided(json!([])).unwrap().round, Some(2), "all are left out");
        let ended = TurnView::new(turn(), "m", "hello");
        assert_eq!(command_of_nothing(&ended), NOT_FOUND);
    }

    fn command_of_nothing(turn: &TurnView) -> String {
        refused(command(turn, Vec::new(), true).unwrap_err()).message().to_owned()
    }

    #[test]
    fn a_decision_may_have_a_reason_or_arguments() {
        let id = call(2, 1, true).id.to_string();
        let of = |more: Value| {
            let mut approval = json!({ "call_id": id, "approved": true });
            approval.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            decided(json!([approval])).unwrap().decisions[0].decision.clone()
        };
        let arguments = json!({ "name": "b" });
        assert_eq!(of(json!({ "arguments": arguments })), Decision::ApproveEdited { arguments });
        let reason = Some("no".to_owned());
        assert_eq!(of(json!({ "approved": false, "reason": "no" })), Decision::Reject { reason });
        assert_eq!(of(json!({ "approved": false, "reason": " " })), Decision::Reject { reason: None });
    }

    #[test]
    fn unknown_calls_and_untyped_decisions_are_refused() {
        let (id, other) = (call(2, 1, true).id.to_string(), call(2, 9, true).id.to_string());
        let approve = |id: &str| json!({ "call_id": id, "approved": true });
        let earlier = call(1, 1, false).id.to_string();
        for approvals in [
            json!([approve("x")]),
            json!([approve(&other)]),
            json!([approve(&id), approve(&id)]),
            json!([approve(&id), approve(&earlier)]),
        ] {
            assert!(decided(approvals.clone()).is_err(), "{approvals}");
        }
        for approval in
            [json!({ "call_id": id, "approved": "false" }), json!({ "approved": true }), json!({ "call_id": id })]
        {
            let body = json!({ "turn_id": turn(), "approvals": [approval] });
            assert!(serde_json::from_value::<ApproveBody>(body).is_err());
        }
    }
}
