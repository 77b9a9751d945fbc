//! Many threads at once, clients that repeat, cancel and disconnect, and a node that is stopped repeatedly: histories
//! and stored effects agree afterwards.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use folio_history::History;
use folio_history::event::{Event, EventKind};
use folio_history::journal::CallStatus;
use folio_llm::ModelRequest;
use folio_types::message::Message;
use folio_types::{Environment as _, Error, Principal, Reason, ThreadId, TurnId};
use futures::StreamExt as _;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::sandbox::{SOON, Sandbox, approve_all, request};
use super::script::{Step, call, say};
use crate::{Conversations, Options};
use folio_history::command::{ApproveCommand, ChatCommand, IfPending};

const CLIENTS: usize = 6;
const MESSAGES: usize = 5;
const STOPS: usize = 4;

/// Calls for the tag that the user names, and confirms it after the result.
fn answer(request: &ModelRequest) -> Step {
    match request.messages.last() {
        Some(Message::User { text }) => call("create_tag", json!({ "name": text })),
        _ => say("Done, or not."),
    }
}

/// The conversations of the live node, for a client.
#[derive(Clone)]
struct Client {
    node: watch::Receiver<Conversations>,
    principal: Principal,
    chat: ChatCommand,
    name: String,
    random: Arc<folio_testkit::Simulated>,
}

impl Client {
    /// Returns whether to retry: the called node may be dead.
    async fn again(&self, error: &Error, since: Instant) -> bool {
        tokio::task::yield_now().await;
        error.is_retriable() && since.elapsed() < SOON
    }

    /// Chats until the turn has ended or waits.
    async fn message(&self, thread: &mut Option<ThreadId>, n: usize) -> Option<TurnId> {
        let command = ChatCommand {
            thread: thread.clone(),
            documents: if thread.is_some() { vec![] } else { self.chat.documents.clone() },
            text: format!("{} {n}", self.name),
            if_pending: IfPending::Supersede,
            auto_approve: self.random.random().is_multiple_of(3),
            request_id: request(&format!("{}-{n}", self.name.replace(' ', "-"))),
            ..self.chat.clone()
        };
        let since = Instant::now();
        let last = loop {
            match self.try_message(command.clone()).await {
                Ok(last) => break last,
                Err(error) => assert!(self.again(&error, since).await, "{}: {error}", self.name),
            }
        };
        *thread = Some(last.turn.thread.clone());
        matches!(last.kind, EventKind::AwaitingApproval { .. }).then_some(last.turn)
    }

    async fn try_message(&self, command: ChatCommand) -> Result<Event, Error> {
        let node = self.node.borrow().clone();
        let mut stream = node.chat(&self.principal, command).await?;
        let mut last = None;
        while let Some(event) = stream.next().await {
            last = Some(event?);
        }
        let last = last.ok_or_else(|| Error::unavailable(Reason::NodeLost, "an empty stream"))?;
        match last.kind {
            EventKind::Failed { error, retriable: true } => Err(error),
            _ => Ok(last),
        }
    }

    /// Sends a random kind of decision.
    async fn decide(&self, turn: &TurnId) {
        let way = self.random.random() % 5;
        let since = Instant::now();
        while let Err(error) = self.try_decide(turn, way).await {
            if !self.again(&error, since).await {
                // A repetition may find the turn decided otherwise or ended: that is an answer too.
                return assert!(!error.is_retriable(), "{}: {error}", self.name);
            }
        }
    }

    async fn try_decide(&self, turn: &TurnId, way: u128) -> Result<(), Error> {
        let node = self.node.borrow().clone();
        let view = node.get_turn(&self.principal, turn).await?;
        let mut command = ApproveCommand { round: Some(1), ..approve_all(turn, &view.pending) };
        if way == 0 {
            command.reject_undecided = true;
            command.decisions.clear();
        }
        match way {
            1 => node.cancel(&self.principal, turn).await.map(drop),
            2 => Ok(()),
            3 => {
                let once = node.approve(&self.principal, command.clone());
                let (one, two) = tokio::join!(once, node.approve(&self.principal, command));
                one.and(two).map(drop)
            }
            _ => node.approve(&self.principal, command).await.map(drop),
        }
    }

    async fn run(self) -> ThreadId {
        let mut thread = None;
        for n in 0..MESSAGES {
            if let Some(turn) = self.message(&mut thread, n).await {
                self.decide(&turn).await;
            }
        }
        thread.expect("a thread was made")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_and_effects_agree_for_all_client_actions_and_crashes() {
    let options = Options {
        sweep_interval: Duration::from_millis(20),
        idle_timeout: Duration::from_millis(5),
        ..Options::default()
    };
    let mut sandbox = Sandbox::start_with(options).await;
    sandbox.models.otherwise(answer);
    let (publish, node) = watch::channel(sandbox.conversations.clone());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let client = Client {
                node: node.clone(),
                principal: sandbox.principal.clone(),
                chat: sandbox.chat(""),
                name: format!("client {n}"),
                random: sandbox.environment.clone(),
            };
            tokio::spawn(client.run())
        })
        .collect();
    for stop in 1..=STOPS {
        sandbox.wait_for_model_calls(stop * CLIENTS).await;
        sandbox.restart().await;
        publish.send_replace(sandbox.conversations.clone());
    }
    let mut threads = Vec::new();
    for client in clients {
        threads.push(client.await.unwrap());
    }

    let mut reported = BTreeSet::new();
    for thread in &threads {
        sandbox.assert_sendable(thread).await;
        let history = History::fold(sandbox.journal(thread).await);
        assert_eq!(history.turns().len(), MESSAGES, "one turn for each request id");
        for turn in history.turns().iter().filter(|turn| turn.ended.is_some()) {
            assert_eq!(turn.open_intents().count(), 0);
            let calls = turn.rounds.iter().flat_map(|round| &round.calls);
            for call in calls.filter(|call| call.status() == Some(CallStatus::Ok)) {
                assert!(reported.insert(call.arguments()["name"].as_str().unwrap().to_owned()), "invariant 3");
            }
        }
    }
    assert!(!reported.is_empty(), "something was done");
    assert_eq!(sandbox.tag_names().await.into_iter().collect::<BTreeSet<_>>(), reported, "invariants 2 and 3");
    publish.send_replace(sandbox.conversations.clone());
    drop(publish);
    sandbox.finish().await;
}
