//! Calls that wait for approval: their state for a client, and the question to its user (elicitation).
//!
//! No gateway remembers a question: it names the call and the digest of its arguments, and its answer repeats them. The
//! answer is a decision by the caller that sent it, which the owner of the thread checks like any other decision. A client
//! that changes a name in the answer can only decide what it may decide anyway.

use std::time::Duration;

use folio_history::command::{ApproveCommand, CallDecision};
use folio_history::event::{CallView, TurnStatus, TurnView};
use folio_history::journal::Decision;
use folio_operations::conversations::GetTurn;
use folio_types::{CallId, Digest, Error, Result, Timestamp};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Client;
use super::call::{self, Outcome};
use super::message::Failure;

/// Start of the id of a question in a stream.
const QUESTION: &str = "approval ";
/// Name of the question of a result.
const APPROVAL: &str = "approval";
/// Maximum number of characters of the arguments in a question.
const ARGUMENTS_CHARS: usize = 2_000;
/// Maximum time that a stream waits for the answer to its question. The call then still waits.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A call that waits for a decision.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Waiting {
    pub(super) call: CallView,
    /// None: unknown.
    expires_at: Option<Timestamp>,
}

/// Returns the first call of a turn that waits for a decision.
pub(super) fn waiting(view: &TurnView) -> Option<Waiting> {
    let call = view.pending.iter().find(|call| call.needs_approval)?.clone();
    (view.status == TurnStatus::AwaitingApproval).then(|| Waiting { call, expires_at: view.expires_at })
}

impl Waiting {
    /// Returns the state as the result of a tool call.
    pub(super) fn result(&self) -> Value {
        let CallView { id, name, arguments, digest, approval_requirement, .. } = &self.call;
        call::content(
            &json!({
                "status": "waiting_for_approval",
                "turn_id": id.turn,
                "call_id": id,
                "tool": name,
                "arguments": arguments,
                "arguments_digest": digest,
                "rule": approval_requirement.as_ref().map(|requirement| &requirement.rule),
                "expire_time": self.expires_at.map(|at| at.to_string()),
                "next": "A person approves or rejects the call. get_turn returns its result afterwards.",
            }),
            false,
        )
    }

    /// Returns the question as a request to a client with a handshake.
    pub(super) fn request(&self) -> Value {
        let id = format!("{QUESTION}{}", self.reference());
        json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": self.question() })
    }

    /// Returns the question as the result of the call of a stateless client, which repeats the call with the answer.
    pub(super) fn input_required(&self) -> Value {
        let question = json!({ "method": "elicitation/create", "params": self.question() });
        json!({
            "resultType": "input_required",
            "inputRequests": { APPROVAL: question },
            "requestState": self.reference(),
        })
    }

    fn reference(&self) -> String {
        format!("{} {}", self.call.id, self.call.digest)
    }

    fn question(&self) -> Value {
        let CallView { name, arguments, approval_requirement, .. } = &self.call;
        let mut shown: String = arguments.to_string().chars().take(ARGUMENTS_CHARS).collect();
        if shown.chars().count() == ARGUMENTS_CHARS {
            shown.push('…');
        }
        let rule = approval_requirement.as_ref().map(|requirement| format!(" Rule: {}.", requirement.rule));
        let message = format!("The tool {name} waits for approval.{} Arguments: {shown}", rule.unwrap_or_default());
        json!({
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "approve": {
                        "type": "boolean",
                        "title": "Approve",
                        "description": "True runs the call with these arguments. False rejects it.",
                    },
                },
                "required": ["approve"],
            },
        })
    }
}

/// Parses a reference to a call: its id, and the digest of the arguments that the user saw.
fn parse(reference: &str) -> Option<(CallId, Digest)> {
    let (call, digest) = reference.split_once(' ')?;
    Some((call.parse().ok()?, digest.parse().ok()?))
}

/// Returns the decision that the answer to a question contains. None: the user took none.
fn decision(answer: &Value) -> Option<Decision> {
    let approves = answer.get("content").and_then(|content| content.get("approve")).and_then(Value::as_bool);
    match (answer.get("action").and_then(Value::as_str), approves) {
        (Some("accept"), Some(true)) => Some(Decision::Approve),
        (Some("accept"), Some(false)) | (Some("decline"), _) => Some(Decision::Reject { reason: None }),
        _ => None,
    }
}

async fn decide(client: &Client, (call, digest): (CallId, Digest), answer: &Value) -> Result<()> {
    let Some(decision) = decision(answer) else { return Ok(()) };
    let command = ApproveCommand {
        turn: call.turn.clone(),
        round: Some(call.round),
        decisions: vec![CallDecision { call, decision, digest: Some(digest) }],
        reject_undecided: false,
        continue_auto_approved: true,
    };
    client.run(command).await.map(drop)
}

/// Applies the response of a client with a handshake to a question of the server.
///
/// # Errors
/// `INVALID_FIELD` if the server asks no question with this id; the errors of a decision.
pub(super) async fn decide_by_response(client: &Client, id: &Value, answer: &Value) -> Result<()> {
    let reference = id.as_str().and_then(|id| id.strip_prefix(QUESTION)).and_then(parse);
    let reference = reference.ok_or_else(|| Error::invalid_field("id", "is not the id of a request of this server"))?;
    decide(client, reference, answer).await
}

/// Waits until a call no longer waits, and returns its result. Another gateway may receive the answer of the user.
pub(super) async fn outcome(client: &Client, waiting: &Waiting) -> Value {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    loop {
        // Real time must pass: the answer arrives in another request.
        tokio::time::sleep(POLL_INTERVAL).await;
        let turn_id = waiting.call.id.turn.clone();
        match client.run(GetTurn { turn_id }).await {
            Ok(view) if is_open(view.status) && Instant::now() < deadline => {}
            Ok(view) => return call::result(&view),
            Err(error) if error.is_retriable() && Instant::now() < deadline => {}
            Err(error) => return call::refused(error),
        }
    }
}

fn is_open(status: TurnStatus) -> bool {
    matches!(status, TurnStatus::AwaitingApproval | TurnStatus::Running)
}

/// Continues the repeated call of a stateless client with the answer of its user. Without an answer, the question is
/// repeated.
pub(super) async fn resume(
    client: &Client,
    tool: &str,
    state: &Value,
    responses: Option<&Value>,
) -> Result<Outcome, Failure> {
    let reference = state.as_str().and_then(parse);
    let (call, digest) =
        reference.ok_or_else(|| Failure::invalid_params("requestState is not a state of this server"))?;
    let turn_id = call.turn.clone();
    let view = client.run(GetTurn { turn_id: turn_id.clone() }).await?;
    let mut calls = view.rounds.iter().flat_map(|round| &round.calls).chain(&view.pending);
    if !calls.any(|known| known.id == call && known.name == tool) {
        return Err(Failure::invalid_params("requestState belongs to a call of another tool"));
    }
    let Some(answer) = responses.and_then(|responses| responses.get(APPROVAL)) else {
        return call::of_turn(client, turn_id).await;
    };
    Ok(Outcome::Ended(match decide(client, (call, digest), answer).await {
        Ok(()) => call::result(&client.run(GetTurn { turn_id }).await?),
        Err(error) => call::refused(error),
    }))
}

#[cfg(test)]
mod tests {
    use folio_history::journal::Access;
    use folio_types::{ThreadId, TurnId};

    use super::*;

    fn call(arguments: Value) -> CallView {
        CallView {
            id: CallId::new(TurnId::new(ThreadId::derive(&["t"]), 3), 1, 1),
            name: "delete_tag".to_owned(),
            digest: Digest::of_json(&arguments),
            arguments,
            access: Access::ReadWrite,
            needs_approval: true,
            approval_requirement: None,
            group: None,
        }
    }

    #[test]
    fn a_question_names_the_call_and_the_arguments_that_the_user_sees() {
        let waiting = Waiting { call: call(json!({"tag_id": "x"})), expires_at: None };
        let state = waiting.input_required()["requestState"].as_str().unwrap().to_owned();
        assert_eq!(parse(&state), Some((waiting.call.id.clone(), waiting.call.digest.clone())));
        let request = waiting.request();
        assert_eq!(request["id"].as_str().unwrap().strip_prefix(QUESTION), Some(state.as_str()));
        assert!(request["params"]["message"].as_str().unwrap().contains(r#"{"tag_id":"x"}"#));
        for bad in ["", "a b", "approval", &state.replace(' ', "")] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        let large = Waiting { call: call(json!("x".repeat(10_000))), expires_at: None };
        assert!(large.question()["message"].as_str().unwrap().chars().count() < ARGUMENTS_CHARS + 200);
    }

    #[test]
    fn only_an_explicit_choice_is_a_decision() {
        let approve = |value: Value| json!({"action": "accept", "content": {"approve": value}});
        assert_eq!(decision(&approve(json!(true))), Some(Decision::Approve));
        let reject = Some(Decision::Reject { reason: None });
        assert_eq!(decision(&approve(json!(false))), reject);
        assert_eq!(decision(&json!({"action": "decline"})), reject);
        for none in [json!({"action": "cancel"}), json!({"action": "accept"}), approve(json!("true")), Value::Null] {
            assert_eq!(decision(&none), None, "{none}");
        }
    }

    #[test]
    fn a_waiting_call_is_structured() {
        let turn = TurnId::new(ThreadId::derive(&["t"]), 3);
        let pending = vec![call(json!({}))];
        let view = TurnView { status: TurnStatus::AwaitingApproval, pending, ..TurnView::new(turn.clone(), "m", "t") };
        let result = waiting(&view).unwrap().result();
        let state = &result["structuredContent"];
        assert_eq!((&state["status"], &state["turn_id"]), (&json!("waiting_for_approval"), &json!(turn)));
        assert_eq!((&state["call_id"], &result["isError"]), (&json!(format!("{turn}.1.1")), &json!(false)));
        assert_eq!(waiting(&TurnView { status: TurnStatus::Running, ..view }), None);
    }
}
