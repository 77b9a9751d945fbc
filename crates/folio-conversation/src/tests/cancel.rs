//! Cancelling in every state.

use folio_metering::AbandonedCalls;

use super::*;
use crate::window::{estimated_tokens, messages_tokens, tool_tokens};

async fn cancel(sandbox: &Sandbox, turn: &TurnId) -> TurnStatus {
    sandbox.conversations.cancel(&sandbox.principal, turn).await.unwrap().status
}

#[tokio::test]
async fn cancelling_during_a_model_call_stops_the_request_and_settles_it() {
    let sandbox = Sandbox::start().await;
    sandbox.models.then([Step::Hang]);
    let mut stream = sandbox.begin(sandbox.chat("talk")).await;
    let turn = loop {
        let event = stream.next().await.unwrap().unwrap();
        if matches!(event.kind, EventKind::TextDelta { .. }) {
            break event.turn;
        }
    };
    assert_eq!(sandbox.models.open(), 1);
    assert_eq!(cancel(&sandbox, &turn).await, TurnStatus::Cancelled);
    sandbox.wait_for_idle_model().await;
    assert_eq!(closing(&all(stream).await), &EventKind::Cancelled);
    let usage = wait_for("the settlement", SOON, || async { sandbox.usage().await.pop() }).await;
    let request = sandbox.models.requests().remove(0);
    let tools = tool_tokens(&request.tools);
    let around = tools + estimated_tokens(&request.state);
    let prompt = estimated_tokens(&request.system) + messages_tokens(&request.messages) + around;
    assert!(tools > 0, "the definitions of tools are a part of the prompt");
    assert!(!usage.completed && usage.usage.input_tokens == u64::try_from(prompt).unwrap(), "{prompt}: {usage:?}");
    assert_eq!(cancel(&sandbox, &turn).await, TurnStatus::Cancelled, "a repeated cancel returns the final status");
    sandbox.finish().await;
}

#[tokio::test]
async fn a_queued_model_call_is_neither_sent_nor_charged_after_it_is_cancelled() {
    for abandoned in [AbandonedCalls::Abort, AbandonedCalls::Drain] {
        let sandbox = Sandbox::start_as(Options::default(), None, None, abandoned).await;
        sandbox.models.then([Step::Queued(Box::new(say("Too late.")))]);
        let stream = sandbox.begin(sandbox.chat("talk")).await;
        sandbox.wait_for_model_calls(1).await;
        let thread = sandbox.conversations.snapshot().busy[0].thread.clone();
        assert_eq!(cancel(&sandbox, &TurnId::new(thread, 1)).await, TurnStatus::Cancelled);
        assert_eq!(closing(&all(stream).await), &EventKind::Cancelled);
        sandbox.wait_for_idle_model().await;
        sandbox.models.release();
        sandbox.conversations.drain(SOON).await;
        assert!(!sandbox.models.requests()[0].progress.is_sent(), "{abandoned:?}");
        assert_eq!(sandbox.usage().await, [], "{abandoned:?}");
        sandbox.finish().await;
    }
}

#[tokio::test]
async fn a_sent_call_is_read_to_its_end_if_configured() {
    let sandbox = Sandbox::start_as(Options::default(), None, None, AbandonedCalls::Drain).await;
    sandbox.models.then([gated(say("Discarded."))]);
    let stream = sandbox.begin(sandbox.chat("talk")).await;
    sandbox.wait_for_model_calls(1).await;
    let thread = sandbox.conversations.snapshot().busy[0].thread.clone();
    assert_eq!(cancel(&sandbox, &TurnId::new(thread, 1)).await, TurnStatus::Cancelled);
    assert_eq!(closing(&all(stream).await), &EventKind::Cancelled);
    sandbox.models.release();
    let usage = wait_for("the settlement", SOON, || async { sandbox.usage().await.pop() }).await;
    assert!(usage.completed && usage.usage.reported, "{usage:?}");
    sandbox.finish().await;
}

#[tokio::test]
async fn cancelling_with_an_open_intent_closes_it_first() {
    for (point, has_effect) in [("write:before", false), ("write:after", true)] {
        let sandbox = Sandbox::start().await;
        let (turn, pending) = sandbox.pause_at(call("create_tag", json!({"name": "a"}))).await;
        sandbox.hang_at(Some(point));
        let approve = sandbox.spawn_approve(approve_all(&turn, &pending));
        sandbox.reaches(point).await;
        assert_eq!(cancel(&sandbox, &turn).await, TurnStatus::Cancelled, "{point}");
        approve.await.unwrap().unwrap();
        let journal = sandbox.journal(&turn.thread).await;
        assert!(journal.iter().any(|entry| matches!(entry, Entry::Closing(_))), "{point}");
        let view = sandbox.turn(&turn).await;
        let expected = if has_effect { CallStatus::Ok } else { CallStatus::Cancelled };
        assert_eq!(view.rounds[0].results[0].status, expected, "{point}");
        assert_eq!(sandbox.tag_names().await.len(), usize::from(has_effect), "{point}");
        sandbox.assert_sendable(&turn.thread).await;
        sandbox.finish().await;
    }
}
