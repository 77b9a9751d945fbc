//! Conversion of the answer to an approval into the message of the API.

use folio_conversation::ApproveAnswer;
use folio_history::event::EventKind;
use folio_proto::{time, v1};
use folio_types::{Error, Result};

/// Converts the answer to an approval. Errors: INTERNAL if its event closes nothing.
pub(crate) fn convert(answer: &ApproveAnswer) -> Result<v1::ApproveResponse> {
    use v1::approve_response::Outcome;
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
            if !closing.kind.is_closing() {
                return Err(not_closing(&closing.kind));
            }
            let event = v1::Event::from(closing);
            Ok(v1::ApproveResponse {
                turn_id: event.turn_id,
                outcome: event.kind.and_then(outcome),
                round: Some(round.as_ref().into()),
                event_number: event.number,
            })
        }
    }
}

fn outcome(kind: v1::event::Kind) -> Option<v1::approve_response::Outcome> {
    use v1::approve_response::Outcome;
    use v1::event::Kind;
    Some(match kind {
        Kind::AwaitingApproval(waiting) => Outcome::AwaitingApproval(waiting),
        Kind::Completed(completed) => Outcome::Completed(completed),
        Kind::Failed(failed) => Outcome::Failed(failed),
        Kind::Cancelled(cancelled) => Outcome::Cancelled(cancelled),
        Kind::Superseded(superseded) => Outcome::Superseded(superseded),
        Kind::Expired(expired) => Outcome::Expired(expired),
        _ => return None,
    })
}

fn not_closing(kind: &EventKind) -> Error {
    Error::internal(format!("the answer to an approval is no closing event: {kind:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_history::event::{Event, RoundView};
    use folio_types::{ThreadId, TurnId};

    #[test]
    fn only_closing_events_answer_an_approval() {
        let turn = TurnId::new(ThreadId::derive(&["t"]), 1);
        let round = RoundView {
            round: 1,
            text: String::new(),
            thinking: String::new(),
            calls: Vec::new(),
            results: Vec::new(),
        };
        let answer = |kind: EventKind| {
            let closing = Event { turn: turn.clone(), number: 7, kind };
            convert(&ApproveAnswer::Reached { closing, round: Box::new(round.clone()) })
        };
        for kind in [EventKind::Cancelled, EventKind::Expired, EventKind::Superseded] {
            let response = answer(kind).unwrap();
            assert!(response.outcome.is_some());
            assert_eq!((response.event_number, response.round.is_some()), (7, true));
        }
        assert!(answer(EventKind::TextDelta { text: "x".into() }).is_err());
    }
}
