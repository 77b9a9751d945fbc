//! Converts between `ApproveRequest` and the command that the conversation runs, and between the answer and
//! `ApproveResponse`. Processes exchange commands and answers in this form.

use std::collections::HashSet;

use folio_history::command::{ApproveAnswer, ApproveCommand, CallDecision};
use folio_history::event::{Event, EventKind};
use folio_history::journal::Decision;
use folio_types::{Error, Result, TurnId, limits};

use crate::chat::{check_length, prefix_fields};
use crate::{fields, json, time, v1};
use v1::approve_response::Outcome;
use v1::decision::Decision as Choice;
use v1::event::Kind;

/// Parses and validates a request. The request id is only validated, because recorded decisions make `Approve`
/// idempotent. Errors: `INVALID_FIELD`, `INVALID_ID` or `TOO_LARGE`, with the field.
pub fn parse(request: v1::ApproveRequest) -> Result<ApproveCommand> {
    let turn: TurnId = fields::id("turn_id", &request.turn_id)?;
    check_length("decisions", &request.decisions, limits::DECISIONS_MAX, "decisions")?;
    fields::request_id(&request.request_id)?;
    let reject_undecided = match fields::choice("undecided", request.undecided)? {
        v1::Undecided::Reject => true,
        v1::Undecided::Unspecified | v1::Undecided::Wait => false,
    };
    let mut round = (request.round > 0).then_some(request.round);
    let mut seen = HashSet::new();
    let mut decisions = Vec::with_capacity(request.decisions.len());
    for (index, decision) in request.decisions.into_iter().enumerate() {
        let path = format!("decisions[{index}]");
        let decision = parse_decision(decision).map_err(|error| prefix_fields(&path, error))?;
        let field = format!("{path}.call_id");
        if decision.call.turn != turn {
            return Err(Error::invalid_field(field, "must be a call of turn_id"));
        }
        if *round.get_or_insert(decision.call.round) != decision.call.round {
            return Err(Error::invalid_field(field, "is a call of another round"));
        }
        if !seen.insert(decision.call.clone()) {
            return Err(Error::invalid_field(field, "appears in two decisions"));
        }
        decisions.push(decision);
    }
    if round.is_none() {
        return Err(Error::invalid_field("round", "must be set if the request has no decisions"));
    }
    let continue_auto_approved = request.continue_auto_approved;
    Ok(ApproveCommand { turn, round, decisions, reject_undecided, continue_auto_approved })
}

/// Encodes a command for another process, which decodes it with [`parse`].
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

/// Encodes the answer to an approval. Error: `INTERNAL` if the event of the answer is not a closing event.
pub fn encode_answer(answer: &ApproveAnswer) -> Result<v1::ApproveResponse> {
    match answer {
        ApproveAnswer::StillAwaiting { turn, round, missing, expires_at } => Ok(v1::ApproveResponse {
            turn_id: turn.to_string(),
            outcome: Some(Outcome::StillAwaiting(v1::StillAwaiting {
                round: *round,
                missing: missing.iter().map(Into::into).collect(),
                expire_time: Some(time::to_proto(*expires_at)),
            })),
            round: None,
            event_number: 0,
        }),
        ApproveAnswer::Reached { closing, round } => {
            let event = v1::Event::from(closing);
            let outcome = match event.kind {
                Some(Kind::AwaitingApproval(waiting)) => Outcome::AwaitingApproval(waiting),
                Some(Kind::Completed(completed)) => Outcome::Completed(completed),
                Some(Kind::Failed(failed)) => Outcome::Failed(failed),
                Some(Kind::Cancelled(cancelled)) => Outcome::Cancelled(cancelled),
                Some(Kind::Superseded(superseded)) => Outcome::Superseded(superseded),
                Some(Kind::Expired(expired)) => Outcome::Expired(expired),
                other => {
                    return Err(Error::internal(format!(
                        "an approval was answered with an event that is not a closing event: {other:?}"
                    )));
                }
            };
            Ok(v1::ApproveResponse {
                turn_id: event.turn_id,
                outcome: Some(outcome),
                round: Some(round.as_ref().into()),
                event_number: event.number,
            })
        }
    }
}

/// Parses the answer of another process. Errors: `INVALID_FIELD` or `INVALID_ID`, with the field.
pub fn parse_answer(answer: v1::ApproveResponse) -> Result<ApproveAnswer> {
    let turn: TurnId = fields::id("turn_id", &answer.turn_id)?;
    let kind = match fields::required("outcome", answer.outcome)? {
        Outcome::StillAwaiting(v1::StillAwaiting { round, missing, expire_time }) => {
            return Ok(ApproveAnswer::StillAwaiting {
                turn,
                round,
                missing: missing.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
                expires_at: time::from_proto("expire_time", &fields::required("expire_time", expire_time)?)?,
            });
        }
        Outcome::AwaitingApproval(waiting) => Kind::AwaitingApproval(waiting),
        Outcome::Completed(completed) => Kind::Completed(completed),
        Outcome::Failed(failed) => Kind::Failed(failed),
        Outcome::Cancelled(cancelled) => Kind::Cancelled(cancelled),
        Outcome::Superseded(superseded) => Kind::Superseded(superseded),
        Outcome::Expired(expired) => Kind::Expired(expired),
    };
    let closing = Event::new(turn, answer.event_number, EventKind::try_from(kind)?);
    let round = fields::required("round", answer.round)?.try_into()?;
    Ok(ApproveAnswer::Reached { closing, round: Box::new(round) })
}

fn encode_decision(CallDecision { call, digest, decision }: &CallDecision) -> v1::Decision {
    let decision = match decision {
        Decision::Approve => Choice::Approved(v1::Approved {}),
        Decision::ApproveEdited { arguments } => {
            Choice::ApprovedEdited(v1::ApprovedEdited { arguments_json: json::text(arguments) })
        }
        Decision::Reject { reason } => Choice::Rejected(v1::Rejected { reason: reason.clone().unwrap_or_default() }),
    };
    v1::Decision {
        call_id: call.to_string(),
        arguments_digest: fields::text_of(digest.as_ref()),
        decision: Some(decision),
    }
}

fn parse_decision(v1::Decision { call_id, arguments_digest, decision }: v1::Decision) -> Result<CallDecision> {
    let decision = match fields::required("decision", decision)? {
        Choice::Approved(_) => Decision::Approve,
        Choice::ApprovedEdited(edited) => {
            let field = "approved_edited.arguments_json";
            let arguments = json::parse_object(field, &edited.arguments_json, limits::ARGUMENTS_BYTES)?;
            Decision::ApproveEdited { arguments }
        }
        Choice::Rejected(rejected) => {
            let reason = fields::paragraph("rejected.reason", &rejected.reason, limits::REJECTION_REASON_CHARS)?;
            Decision::Reject { reason: Some(reason).filter(|reason| !reason.trim().is_empty()) }
        }
    };
    Ok(CallDecision {
        call: fields::id("call_id", &call_id)?,
        digest: fields::optional_id("arguments_digest", &arguments_digest)?,
        decision,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_history::event::RoundView;
    use folio_types::{CallId, Digest, ThreadId, Timestamp};

    fn turn() -> TurnId {
        TurnId::new(ThreadId::derive(&["t"]), 1)
    }

    fn decision(round: u32, index: u32, choice: Choice) -> v1::Decision {
        let call_id = CallId::new(turn(), round, index).to_string();
        v1::Decision { call_id, decision: Some(choice), ..Default::default() }
    }

    fn request(decisions: Vec<v1::Decision>) -> v1::ApproveRequest {
        v1::ApproveRequest { turn_id: turn().to_string(), decisions, ..Default::default() }
    }

    #[test]
    fn the_round_follows_from_the_decisions() {
        let input = parse(request(vec![decision(3, 1, Choice::Approved(v1::Approved {}))])).unwrap();
        assert_eq!((input.round, input.reject_undecided), (Some(3), false));
        assert!(parse(request(Vec::new())).is_err());
        let named = v1::ApproveRequest { round: 2, ..request(Vec::new()) };
        assert_eq!(parse(named).unwrap().round, Some(2));
    }

    #[test]
    fn an_answer_survives_encoding_and_only_closing_events_answer() {
        let round = RoundView { text: "t".into(), ..RoundView::new(1) };
        let reached = |kind: EventKind| ApproveAnswer::Reached {
            closing: Event::new(turn(), 7, kind),
            round: Box::new(round.clone()),
        };
        let failed = EventKind::Failed { error: Error::invalid_field("a", "b"), retriable: true };
        let waiting = EventKind::AwaitingApproval { round: 2, pending: Vec::new(), expires_at: Timestamp::UNIX_EPOCH };
        let still = ApproveAnswer::StillAwaiting {
            turn: turn(),
            round: 1,
            missing: Vec::new(),
            expires_at: Timestamp::UNIX_EPOCH,
        };
        let closing = [EventKind::Cancelled, EventKind::Expired, EventKind::Superseded, failed, waiting].map(reached);
        for answer in closing.into_iter().chain([still]) {
            assert_eq!(parse_answer(encode_answer(&answer).unwrap()).unwrap(), answer);
        }
        assert!(encode_answer(&reached(EventKind::TextDelta { text: "x".into() })).is_err());
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
    fn malformed_decisions_are_refused_with_their_path() {
        let approved = || Choice::Approved(v1::Approved {});
        let edited = |text: &str| Choice::ApprovedEdited(v1::ApprovedEdited { arguments_json: text.into() });
        let rejected = |reason: String| Choice::Rejected(v1::Rejected { reason });
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
