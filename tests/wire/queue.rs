//! Chats that wait behind a running turn: few, not accepted before their turn starts, and dropped with their client.

use std::time::Duration;

use folio_proto::v1;
use folio_types::{Code, Error, limits};
use tokio::task::JoinSet;
use tonic::Status;

use crate::client::{Client, Events, approved, decide, refused};
use crate::sandbox::{Sandbox, Setup};
use crate::within;

const SCRIPT: &str = "
rules:
  - when: {user: held}
    fault: {hold: {gate: g}}
    answer: {text: Late.}
  - when: {user: held write, round: 1}
    fault: {hold: {gate: g}}
    answer: {calls: [{name: create_tag, arguments: {name: made}}]}
  - when: {user: held write}
    answer: {text: Made.}
  - answer: {text: 'You said {{user}}.'}
";

/// Sends a chat that waits behind a running turn, where a conversation may have one request in progress: the chat, so
/// that a read of the turn is refused. A read that comes first takes the permit, and the chat is sent again.
pub(crate) async fn wait_alone(
    client: &Client,
    request: &v1::ChatRequest,
    turn: &str,
    queued: &mut JoinSet<Result<Events, Status>>,
) -> Error {
    let refusal = async {
        loop {
            if queued.is_empty() {
                let (client, request) = (client.clone(), request.clone());
                queued.spawn(async move { client.send(request).await });
            }
            let look = client.try_turn(turn).await;
            if look.is_err() {
                return refused(look);
            }
            if let Some(early) = queued.try_join_next() {
                assert_eq!(refused(early.expect("a chat does not panic")).reason.as_str(), "OVERLOADED");
            }
        }
    };
    within("a chat that waits", refusal).await
}

/// A turn that waits for its model, and chats behind it.
struct Busy {
    sandbox: Sandbox,
    client: Client,
    thread: String,
    queued: JoinSet<Result<Events, Status>>,
}

impl Busy {
    /// Starts the turn.
    async fn with(text: &str) -> (Self, Events) {
        Self::on(Setup::new(SCRIPT), text).await
    }

    async fn on(setup: Setup, text: &str) -> (Self, Events) {
        let sandbox = setup.start().await;
        let (client, document) = sandbox.with_document().await;
        let running = client.chat(&document, text).await;
        sandbox.sim.until_held().await;
        let thread = running.thread();
        (Self { sandbox, client, thread, queued: JoinSet::new() }, running)
    }

    fn chat(&self, text: &str) -> v1::ChatRequest {
        let if_busy = v1::IfBusy::Enqueue.into();
        v1::ChatRequest { thread_id: self.thread.clone(), text: text.to_owned(), if_busy, ..Default::default() }
    }

    fn enqueue(&mut self, request: v1::ChatRequest) {
        let client = self.client.clone();
        self.queued.spawn(async move { client.send(request).await });
    }

    /// Fills the queue; one more chat is refused with the bound.
    async fn fill(&mut self) {
        for number in 0..=limits::QUEUE_PER_THREAD {
            self.enqueue(self.chat(&format!("wait {number}")));
        }
        let error = refused(within("a full queue", self.queued.join_next()).await.unwrap().unwrap());
        assert_eq!((error.code, error.reason.as_str()), (Code::ResourceExhausted, "QUEUE_FULL"), "{error:?}");
        assert!(error.retry_after.is_some());
        assert_eq!(self.queued.len(), limits::QUEUE_PER_THREAD);
    }

    /// Returns the user messages of the thread, in order.
    async fn user_messages(&self) -> Vec<String> {
        let messages = self.client.thread(&self.thread).await.messages;
        let users = messages.into_iter().filter_map(|message| match message.kind {
            Some(v1::message::Kind::User(user)) => Some(user.text),
            _ => None,
        });
        users.collect()
    }
}

#[tokio::test]
async fn on_drain_waiting_chats_are_refused_and_the_running_turn_ends() {
    let (mut busy, running) = Busy::with("held").await;
    busy.fill().await;
    busy.sandbox.ask_to_stop();
    while let Some(told) = within("the refusals", busy.queued.join_next()).await {
        let error = refused(told.unwrap());
        assert_eq!((error.code, error.reason.as_str()), (Code::Unavailable, "DRAINING"), "{error:?}");
        assert!(error.retry_after.is_some());
    }
    busy.sandbox.sim.open("g").await;
    assert_eq!(running.completed().await.text, "Late.", "what runs may end");
    busy.sandbox.dead().await;
    busy.client = busy.sandbox.restart().await;
    assert_eq!(busy.user_messages().await, ["held"], "nothing of theirs was accepted");
}

#[tokio::test]
async fn who_leaves_before_the_turn_started_is_dropped_and_leaves_a_place() {
    let (mut busy, _running) = Busy::with("held").await;
    busy.fill().await;
    busy.queued.shutdown().await;
    // A place is free once the server has noticed: then the request waits instead of being refused.
    let stayed = loop {
        let (client, request) = (busy.client.clone(), busy.chat("I stay"));
        let mut asked = tokio::spawn(async move { client.send(request).await });
        match tokio::time::timeout(Duration::from_millis(200), &mut asked).await {
            Err(_) => break asked,
            Ok(refusal) => assert_eq!(refused(refusal.unwrap()).reason.as_str(), "QUEUE_FULL"),
        }
    };
    busy.sandbox.sim.open("g").await;
    let stayed = within("the turn of who stayed", stayed).await.unwrap().unwrap();
    assert_eq!(stayed.completed().await.text, "You said I stay.");
    assert_eq!(busy.user_messages().await, ["held", "I stay"]);
    assert_eq!(busy.sandbox.sim.chats().await.len(), 2, "no model was asked for those who left");
}

#[tokio::test]
async fn who_interrupts_goes_before_all_who_wait() {
    let (mut busy, running) = Busy::with("held").await;
    busy.fill().await;
    let turn = running.turn();
    let request = v1::ChatRequest { if_busy: v1::IfBusy::Interrupt.into(), ..busy.chat("now") };
    assert_eq!(busy.client.send(request).await.unwrap().completed().await.text, "You said now.");
    assert_eq!(busy.client.turn(&turn).await.status(), v1::TurnStatus::Cancelled);
    while let Some(stream) = within("the queue", busy.queued.join_next()).await {
        assert!(stream.unwrap().unwrap().completed().await.text.starts_with("You said wait "));
    }
    let said = busy.user_messages().await;
    assert_eq!(said[..2], ["held", "now"]);
    assert_eq!(said.len(), 2 + limits::QUEUE_PER_THREAD);
}

#[tokio::test]
async fn at_the_front_a_pause_rejects_or_is_superseded_as_the_chat_says() {
    for if_pending in [v1::IfPending::Reject, v1::IfPending::Supersede] {
        let setup = Setup::new(SCRIPT).with("FOLIO_CONVERSATION__IN_FLIGHT_PER_CONVERSATION", 1);
        let (mut busy, running) = Busy::on(setup, "held write").await;
        let turn = running.turn();
        let request = v1::ChatRequest { if_pending: if_pending.into(), ..busy.chat("next") };
        let error = wait_alone(&busy.client, &request, &turn, &mut busy.queued).await;
        assert_eq!(error.reason.as_str(), "OVERLOADED", "{error:?}");
        busy.sandbox.sim.open("g").await;
        let waiting = running.pause().await;
        let answer = within("the front of the queue", busy.queued.join_next()).await.unwrap().unwrap();
        if if_pending == v1::IfPending::Supersede {
            assert_eq!(answer.unwrap().completed().await.text, "You said next.");
            assert_eq!(busy.client.turn(&turn).await.status(), v1::TurnStatus::Superseded);
            let late = refused(busy.client.approve(decide(&waiting, approved)).await);
            assert_eq!((late.code, late.reason.as_str()), (Code::FailedPrecondition, "TURN_ENDED"));
            assert!(busy.client.tag_names().await.is_empty(), "invariant 2");
        } else {
            let error = refused(answer);
            assert_eq!((error.code, error.reason.as_str()), (Code::FailedPrecondition, "TURN_PENDING"));
            busy.client.approve_all(&waiting).await;
            assert_eq!(busy.client.tag_names().await, ["made"]);
        }
    }
}
