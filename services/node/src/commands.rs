//! Messages of the API as commands of conversations, and their answers back.

use folio_conversation::{
    ApproveAnswer, ApproveCommand, CallDecision, ChatCommand, ForkCommand, IfBusy, IfPending, NewThreadCommand,
};
use folio_history::event::EventKind;
use folio_proto::{approve, chat, json, thread, time, v1};
use folio_tools::ToolSpec;
use folio_types::{Error, Result};

/// A chat.
pub(crate) fn chat(request: v1::ChatRequest) -> Result<ChatCommand> {
    let input = chat::parse(request)?;
    Ok(ChatCommand {
        profile: input.profile,
        documents: input.documents,
        thread: input.thread,
        ephemeral: input.ephemeral,
        history: input.history,
        text: input.text,
        mentions: input.mentions,
        model: input.model,
        auto_approve: input.auto_approve,
        auto_approved_tools: input.auto_approved_tools,
        if_busy: match input.if_busy {
            v1::IfBusy::Unspecified | v1::IfBusy::Reject => IfBusy::Reject,
            v1::IfBusy::Enqueue => IfBusy::Enqueue,
            v1::IfBusy::Interrupt => IfBusy::Interrupt,
        },
        if_pending: match input.if_pending {
            v1::IfPending::Unspecified | v1::IfPending::Reject => IfPending::Reject,
            v1::IfPending::Supersede => IfPending::Supersede,
        },
        truncate_to_message_count: input.truncate_to_message_count,
        request_id: input.request,
    })
}

/// An approval.
pub(crate) fn approve(request: v1::ApproveRequest) -> Result<ApproveCommand> {
    let input = approve::parse(request)?;
    let decisions = input.decisions.into_iter().map(|given| CallDecision {
        call: given.call,
        decision: given.decision,
        digest: given.digest,
    });
    Ok(ApproveCommand {
        turn: input.turn,
        round: input.round,
        decisions: decisions.collect(),
        reject_undecided: input.reject_undecided,
        continue_auto_approved: input.continue_auto_approved,
    })
}

/// The answer to an approval.
pub(crate) fn approved(answer: &ApproveAnswer) -> Result<v1::ApproveResponse> {
    use v1::approve_response::Outcome;
    match answer {
        ApproveAnswer::StillAwaiting { turn, round, missing, expires_at } => Ok(v1::ApproveResponse {
            turn_id: turn.to_string(),
            outcome: Some(Outcome::StillAwaiting(v1::StillAwaiting {
                round: *round,
                missing: missing.iter().map(Into::into).collect(),
                expires_at: Some(time::to_proto(*expires_at)),
            })),
            round: None,
            event_number: 0,
        }),
        ApproveAnswer::Reached { closing, round } => {
            if !closing.kind.is_closing() {
                return Err(unfit(&closing.kind));
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

fn unfit(kind: &EventKind) -> Error {
    Error::internal(format!("an approval was answered by an event that closes nothing: {kind:?}"))
}

/// A thread without a message.
pub(crate) fn new_thread(request: &v1::CreateThreadRequest) -> Result<NewThreadCommand> {
    let input = thread::create(request)?;
    Ok(NewThreadCommand {
        profile: input.profile,
        documents: input.documents,
        title: input.title,
        model: input.model,
        request_id: input.request,
    })
}

/// A fork.
pub(crate) fn fork(request: &v1::ForkThreadRequest) -> Result<ForkCommand> {
    let input = thread::fork(request)?;
    Ok(ForkCommand {
        thread: input.thread,
        message_count: input.message_count,
        title: input.title,
        request_id: input.request,
    })
}

/// A tool as clients see it.
pub(crate) fn tool(spec: &ToolSpec) -> v1::Tool {
    v1::Tool {
        name: spec.name.to_owned(),
        description: spec.description.to_owned(),
        parameters_json: json::text(&spec.parameters),
        access: v1::ToolAccess::from(spec.access).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_history::event::{Event, RoundView};
    use folio_types::{ThreadId, TurnId};

    #[test]
    fn an_unspecified_choice_rejects() {
        let command = chat(v1::ChatRequest { text: "hello".into(), ..Default::default() }).unwrap();
        assert_eq!((command.if_busy, command.if_pending), (IfBusy::Reject, IfPending::Reject));
        assert_eq!(command, ChatCommand::new("hello"));
    }

    #[test]
    fn every_closing_event_answers_an_approval_and_no_other_does() {
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
            approved(&ApproveAnswer::Reached { closing, round: Box::new(round.clone()) })
        };
        for kind in [EventKind::Cancelled, EventKind::Expired, EventKind::Superseded] {
            let response = answer(kind).unwrap();
            assert!(response.outcome.is_some());
            assert_eq!((response.event_number, response.round.is_some()), (7, true));
        }
        assert!(answer(EventKind::TextDelta { text: "x".into() }).is_err());
    }
}
