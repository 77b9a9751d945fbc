//! A peer with scripted behavior that records its calls.

use std::collections::VecDeque;
use std::sync::Mutex;

use async_trait::async_trait;
use folio_cluster::{CallContext, NodePeer, NodeStatus};
use folio_history::command::{
    ApproveAnswer, ApproveCommand, ChatCommand, CreateThreadCommand, DeleteThreadCommand, ForkThreadCommand,
    RenameThreadCommand,
};
use folio_history::event::{Event, EventKind, RoundView, TurnView};
use folio_history::peer::{ConversationPeer, EventStream};
use folio_history::thread::{NewThread, ThreadView};
use folio_resources::Rendition;
use folio_types::{
    DocumentId, Error, Incarnation, OrgId, Principal, Result, Role, ThreadId, Timestamp, TurnId, UserId,
};
use futures::StreamExt as _;
use tokio::sync::watch;

/// The behavior of a peer at its next call. Default: `Serve`.
#[derive(Debug, Clone)]
pub(crate) enum Behavior {
    /// Responds. A stream has two events, the second a closing one.
    Serve,
    Refuse(Error),
    /// Never responds.
    Hang,
    /// Returns a stream that stays open after its first event.
    Open,
    Panic,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecordedCall {
    pub(crate) rpc: &'static str,
    pub(crate) principal: Option<Principal>,
    pub(crate) context: CallContext,
    /// The thread, turn or request of the call.
    pub(crate) subject: String,
}

pub(crate) struct ScriptedPeer {
    pub(crate) incarnation: Incarnation,
    behaviors: Mutex<VecDeque<Behavior>>,
    calls: watch::Sender<Vec<RecordedCall>>,
    /// Number of calls and streams in progress.
    open: watch::Sender<usize>,
}

/// Counts a call as open until it is dropped.
struct Open(watch::Sender<usize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl ScriptedPeer {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            incarnation: Incarnation::derive(&[name]),
            behaviors: Mutex::default(),
            calls: watch::Sender::default(),
            open: watch::Sender::default(),
        }
    }

    pub(crate) fn script(&self, behaviors: impl IntoIterator<Item = Behavior>) {
        self.behaviors.lock().unwrap().extend(behaviors);
    }

    pub(crate) fn calls(&self) -> Vec<RecordedCall> {
        self.calls.borrow().clone()
    }

    pub(crate) fn call_count(&self) -> usize {
        self.calls.borrow().len()
    }

    /// Waits until the peer received `count` calls.
    pub(crate) async fn wait_for_calls(&self, count: usize) {
        self.calls.subscribe().wait_for(|calls| calls.len() >= count).await.unwrap();
    }

    /// Waits until no call or stream is open.
    pub(crate) async fn wait_until_idle(&self) {
        self.open.subscribe().wait_for(|open| *open == 0).await.unwrap();
    }

    fn enter(&self, rpc: &'static str, principal: Option<&Principal>, subject: impl ToString) -> (Behavior, Open) {
        self.open.send_modify(|open| *open += 1);
        let open = Open(self.open.clone());
        let call = RecordedCall {
            rpc,
            principal: principal.cloned(),
            context: CallContext::current(),
            subject: subject.to_string(),
        };
        self.calls.send_modify(|all| all.push(call));
        (self.behaviors.lock().unwrap().pop_front().unwrap_or(Behavior::Serve), open)
    }

    async fn answer<T>(
        &self,
        rpc: &'static str,
        principal: Option<&Principal>,
        subject: impl ToString + Send,
        answer: T,
    ) -> Result<T> {
        let (behavior, _open) = self.enter(rpc, principal, subject);
        match behavior {
            Behavior::Serve | Behavior::Open => Ok(answer),
            Behavior::Refuse(error) => Err(error),
            Behavior::Hang => std::future::pending().await,
            Behavior::Panic => panic!("a panic of the test"),
        }
    }

    async fn events(
        &self,
        rpc: &'static str,
        principal: &Principal,
        subject: impl ToString + Send,
    ) -> Result<EventStream> {
        let (behavior, open) = self.enter(rpc, Some(principal), subject);
        let event = |number, kind| Ok(Event::new(self.own_turn(), number, kind));
        let first = futures::stream::iter([event(1, EventKind::TurnStarted { model: String::new() })]);
        let rest = match behavior {
            Behavior::Serve => futures::stream::iter([event(2, EventKind::Cancelled)]).boxed(),
            Behavior::Open => futures::stream::pending().boxed(),
            Behavior::Refuse(error) => return Err(error),
            Behavior::Hang => std::future::pending().await,
            Behavior::Panic => panic!("a panic of the test"),
        };
        Ok(first
            .chain(rest)
            .map(move |item| {
                let _open = &open;
                item
            })
            .boxed())
    }

    /// Returns a turn that identifies the peer: its thread id is derived from the peer's name.
    pub(crate) fn own_turn(&self) -> TurnId {
        TurnId::new(ThreadId::derive(&[self.incarnation.as_str()]), 1)
    }

    fn thread(&self) -> ThreadView {
        let principal = Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member);
        let id = self.own_turn().thread;
        NewThread::new(id, &principal, "document", Vec::new(), Timestamp::UNIX_EPOCH).header().into()
    }

    fn turn(&self) -> TurnView {
        TurnView::new(self.own_turn(), "", "")
    }
}

#[async_trait]
impl ConversationPeer for ScriptedPeer {
    async fn chat(&self, principal: &Principal, command: ChatCommand) -> Result<EventStream> {
        self.events("chat", principal, command.request_id.unwrap()).await
    }
    async fn approve(&self, principal: &Principal, command: ApproveCommand) -> Result<ApproveAnswer> {
        let round = RoundView::new(1);
        let closing = Event::new(self.own_turn(), 2, EventKind::Cancelled);
        let answer = ApproveAnswer::Reached { closing, round: Box::new(round) };
        self.answer("approve", Some(principal), command.turn, answer).await
    }
    async fn resume(&self, principal: &Principal, turn: &TurnId) -> Result<EventStream> {
        self.events("resume", principal, turn).await
    }
    async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        self.answer("cancel", Some(principal), turn, self.turn()).await
    }
    async fn get_turn(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        self.answer("get_turn", Some(principal), turn, self.turn()).await
    }
    async fn open_turn(&self, principal: &Principal, thread: &ThreadId) -> Result<Option<TurnView>> {
        self.answer("open_turn", Some(principal), thread, Some(self.turn())).await
    }
    async fn watch(&self, principal: &Principal, turn: &TurnId, from_event: u64) -> Result<EventStream> {
        self.events("watch", principal, format!("{turn} from {from_event}")).await
    }
    async fn create_thread(&self, principal: &Principal, command: CreateThreadCommand) -> Result<ThreadView> {
        self.answer("create_thread", Some(principal), command.request_id.unwrap(), self.thread()).await
    }
    async fn rename_thread(&self, principal: &Principal, command: RenameThreadCommand) -> Result<ThreadView> {
        self.answer("rename_thread", Some(principal), command.title, self.thread()).await
    }
    async fn render(&self, principal: &Principal, document: &DocumentId, rendition: &Rendition) -> Result<()> {
        self.answer("render", Some(principal), format!("{document} {rendition:?}"), ()).await
    }
    async fn delete_thread(&self, principal: &Principal, command: DeleteThreadCommand) -> Result<()> {
        self.answer("delete_thread", Some(principal), command.thread, ()).await
    }
    async fn fork_thread(&self, principal: &Principal, command: ForkThreadCommand) -> Result<ThreadView> {
        self.answer("fork_thread", Some(principal), command.thread, self.thread()).await
    }
}

#[async_trait]
impl NodePeer for ScriptedPeer {
    async fn is_thread_active(&self, org: &OrgId, thread: &ThreadId) -> Result<bool> {
        self.answer("is_thread_active", None, format!("{org} {thread}"), true).await
    }
    async fn call_index(&self, org: &OrgId, call: Vec<u8>) -> Result<Vec<u8>> {
        self.answer("call_index", None, format!("{org} {call:?}"), vec![7; 3]).await
    }
    async fn status(&self) -> Result<NodeStatus> {
        let status = NodeStatus {
            incarnation: self.incarnation.clone(),
            draining: true,
            conversations: 7,
            busy_conversations: 3,
            version: "0.1.0".into(),
            started_at: Timestamp::from_second(1_790_000_000).unwrap(),
        };
        self.answer("status", None, "", status).await
    }
}
