//! Parses `ApproveRequest` into the command that the conversation runs, and encodes the command for another process.

use std::collections::HashSet;

use folio_history::command::{ApproveCommand, CallDecision};
use folio_history::journal::Decision;
use folio_types::{Error, Result, TurnId, limits};

use crate::chat::below;
use crate::{fields, json, v1};

/// Parses and validates a request. The request id is only validated: recorded decisions make `Approve` idempotent.
///
/// # Errors
/// `INVALID_FIELD`, `INVALID_ID` or `TOO_LARGE`, with the field.
pub fn parse(request: v1::ApproveRequest) -> Result<ApproveCommand> {
    let turn: TurnId = fields::id("turn_id", &request.turn_id)?;
    if request.decisions.len() > limits::DECISIONS_MAX {
        return Err(Error::invalid_field("decisions", format!("more than {}", limits::DECISIONS_MAX)));
    }
    fields::request_id(&request.request_id)?;
    let reject_undecided = match fields::choice("undecided", request.undecided)? {
        v1::Undecided::Reject => true,
        v1::Undecided::Unspecified | v1::Undecided::Wait => false,
    };
    let mut round = (request.round > 0).then_some(request.round);
    let mut seen = HashSet::new();
    let mut decisions = Vec::with_capacity(request.decisions.len());
    for (index, given) in request.decisions.into_iter().enumerate() {
        let path = format!("decisions[{index}]");
        let read = decision(given).map_err(|error| below(&path, error))?;
        let field = format!("{path}.call_id");
        if read.call.turn != turn {
            return Err(Error::invalid_field(field, "is a call of another turn"));
        }
        if *round.get_or_insert(read.call.round) != read.call.round {
            return Err(Error::invalid_field(field, "is a call of another round"));
        }
        if !seen.insert(read.call.clone()) {
            return Err(Error::invalid_field(field, "is decided twice"));
        }
        decisions.push(read);
    }
    if round.is_none() {
        return Err(Error::invalid_field("round", "is required without decisions"));
    }
    let continue_auto_approved = request.continue_auto_approved;
    Ok(ApproveCommand { turn, round, decisions, reject_undecided, continue_auto_approved })
}

/// Encodes a command as the request that [`parse`] reads back.
pub fn encode(command: &ApproveCommand) -> v1::ApproveRequest {
    v1::ApproveRequest {
        turn_id: command.turn.to_string(),
        round: command.round.unwrap_or_default(),
        decisions: command.decisions.iter().map(encode_decision).collect(),
        undecided: if command.reject_undecided { v1::Undecided::Reject } else { v1::Undecided::Wait }.into(),
        continue_auto_approved: command.continue_auto_approved,
        request_id: String::new(),
    }
}

fn encode_decision(given: &CallDecision) -> v1::Decision {
    use v1::decision::Decision as Kind;
    let decision = match &given.decision {
        Decision::Approve => Kind::Approved(v1::Approved {}),
        Decision::ApproveEdited { arguments } => {
            Kind::ApprovedEdited(v1::ApprovedEdited { arguments_json: json::text(arguments) })
        }
        Decision::Reject { reason } => Kind::Rejected(v1::Rejected { reason: reason.clone().unwrap_or_default() }),
    };
    v1::Decision {
        call_id: given.call.to_string(),
        arguments_digest: given.digest.as_ref().map(ToString::to_string).unwrap_or_default(),
        decision: Some(decision),
    }
}

fn decision(given: v1::Decision) -> Result<CallDecision> {
    use v1::decision::Decision as Given;
    let decision = match fields::required("decision", given.decision)? {
        Given::Approved(_) => Decision::Approve,
        Given::ApprovedEdited(edited) => {
            let field = "approved_edited.arguments_json";
            Decision::ApproveEdited {
                arguments: json::parse_object(field, &edited.arguments_json, limits::ARGUMENTS_BYTES)?,
            }
        }
        Given::Rejected(rejected) => {
            let reason = fields::paragraph("rejected.reason", &rejected.reason, limits::REJECTION_REASON_CHARS)?;
            Decision::Reject { reason: Some(reason).filter(|reason| !reason.trim().is_empty()) }
        }
    };
    Ok(CallDecision {
        call: fields::id("call_id", &given.call_id)?,
        digest: fields::optional_id("arguments_digest", &given.arguments_digest)?,
        decision,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_types::{CallId, Digest, ThreadId};
    use v1::decision::Decision as Given;

    fn turn() -> TurnId {
        TurnId::new(ThreadId::derive(&["t"]), 1)
    }

    fn decision(round: u32, index: u32, given: Given) -> v1::Decision {
        let call_id = CallId::new(turn(), round, index).to_string();
        v1::Decision { call_id, decision: Some(given), ..Default::default() }
    }

    fn request(decisions: Vec<v1::Decision>) -> v1::ApproveRequest {
        v1::ApproveRequest { turn_id: turn().to_string(), decisions, ..Default::default() }
    }

    #[test]
    fn the_round_follows_from_the_decisions() {
        let input = parse(request(vec![decision(3, 1, Given::Approved(v1::Approved {}))])).unwrap();
        assert_eq!((input.round, input.reject_undecided), (Some(3), false));
        assert!(parse(request(Vec::new())).is_err());
        let named = v1::ApproveRequest { round: 2, ..request(Vec::new()) };
        assert_eq!(parse(named).unwrap().round, Some(2));
    }

    #[test]
    fn a_command_survives_encoding() {
        let decision = |index, decision| CallDecision { call: CallId::new(turn(), 2, index), decision, digest: None };
        let arguments = serde_json::json!({ "name": "a" });
        let command = ApproveCommand {
            turn: turn(),
            round: Some(2),
            decisions: vec![
                CallDecision { digest: Some(Digest::of(b"x")), ..decision(1, Decision::Approve) },
                decision(2, Decision::ApproveEdited { arguments }),
                decision(3, Decision::Reject { reason: Some("no".into()) }),
                decision(4, Decision::Reject { reason: None }),
            ],
            reject_undecided: true,
            continue_auto_approved: true,
        };
        assert_eq!(parse(encode(&command)).unwrap(), command);
    }

    #[test]
    fn malformed_decisions_are_refused_by_their_place() {
        let approved = || Given::Approved(v1::Approved {});
        let edited = |text: &str| Given::ApprovedEdited(v1::ApprovedEdited { arguments_json: text.into() });
        let rejected = |reason: String| Given::Rejected(v1::Rejected { reason });
        let stranger = CallId::new(TurnId::new(ThreadId::derive(&["u"]), 1), 1, 1).to_string();
        let nested = format!("{{\"a\":{}{}}}", "[".repeat(100), "]".repeat(100));
        let cases = vec![
            ("decisions[1].call_id", vec![decision(1, 1, approved()), decision(1, 1, approved())]),
            ("decisions[1].call_id", vec![decision(1, 1, approved()), decision(2, 1, approved())]),
            ("decisions[0].call_id", vec![v1::Decision { call_id: stranger, ..decision(1, 1, approved()) }]),
            ("decisions[0].call_id", vec![v1::Decision { call_id: "x".into(), ..decision(1, 1, approved()) }]),
            ("decisions[0].decision", vec![v1::Decision { decision: None, ..decision(1, 1, approved()) }]),
            (
                "decisions[0].arguments_digest",
                vec![v1::Decision { arguments_digest: "x".into(), ..decision(1, 1, approved()) }],
            ),
            ("decisions[0].approved_edited.arguments_json", vec![decision(1, 1, edited("[1]"))]),
            ("decisions[0].approved_edited.arguments_json", vec![decision(1, 1, edited(&nested))]),
            ("decisions[0].approved_edited.arguments_json", vec![decision(1, 1, edited(&"x".repeat(200_000)))]),
            (
                "decisions[0].rejected.reason",
                vec![decision(1, 1, rejected("x".repeat(limits::REJECTION_REASON_CHARS + 1)))],
            ),
            ("decisions", (1..=limits::DECISIONS_MAX as u32 + 1).map(|index| decision(1, index, approved())).collect()),
        ];
        for (field, decisions) in cases {
            let error = parse(request(decisions)).expect_err(field);
            assert_eq!(error.violations.first().map(|v| v.field.as_str()), Some(field), "{error}");
        }
    }
}
