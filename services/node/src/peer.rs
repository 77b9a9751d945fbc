//! The RPC interfaces of the node: for the gateway in the same process, and for the node's listener.

use async_trait::async_trait;
use folio_cluster::{NodePeer, NodeStatus};
use folio_history::command::{
    ApproveAnswer, ApproveCommand, ChatCommand, CreateThreadCommand, DeleteThreadCommand, ForkThreadCommand,
    RenameThreadCommand,
};
use folio_history::event::TurnView;
use folio_history::peer::{ConversationPeer, EventStream};
use folio_history::thread::ThreadView;
use folio_resources::Rendition;
use folio_types::{DocumentId, Error, OrgId, Principal, Reason, Result, ThreadId, TurnId};

use crate::Node;

#[async_trait]
impl ConversationPeer for Node {
    async fn chat(&self, principal: &Principal, command: ChatCommand) -> Result<EventStream> {
        self.conversations().chat(principal, command).await
    }

    async fn approve(&self, principal: &Principal, command: ApproveCommand) -> Result<ApproveAnswer> {
        self.conversations().approve(principal, command).await
    }

    async fn resume(&self, principal: &Principal, turn: &TurnId) -> Result<EventStream> {
        self.conversations().resume(principal, turn).await
    }

    async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        self.conversations().cancel(principal, turn).await
    }

    async fn get_turn(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        self.conversations().get_turn(principal, turn).await
    }

    async fn open_turn(&self, principal: &Principal, thread: &ThreadId) -> Result<Option<TurnView>> {
        self.conversations().open_turn(principal, thread).await
    }

    async fn watch(&self, principal: &Principal, turn: &TurnId, from_event: u64) -> Result<EventStream> {
        self.conversations().watch(principal, turn, from_event).await
    }

    async fn create_thread(&self, principal: &Principal, command: CreateThreadCommand) -> Result<ThreadView> {
        self.conversations().create_thread(principal, command).await.map(Into::into)
    }

    async fn rename_thread(&self, principal: &Principal, command: RenameThreadCommand) -> Result<ThreadView> {
        let RenameThreadCommand { thread, title, request_id } = command;
        self.conversations().rename_thread(principal, &thread, title, request_id).await.map(Into::into)
    }

    async fn delete_thread(&self, principal: &Principal, command: DeleteThreadCommand) -> Result<()> {
        self.conversations().delete_thread(principal, &command.thread, command.request_id.as_ref()).await
    }

    async fn fork_thread(&self, principal: &Principal, command: ForkThreadCommand) -> Result<ThreadView> {
        self.conversations().fork_thread(principal, command).await.map(Into::into)
    }

    async fn render(&self, principal: &Principal, document: &DocumentId, rendition: &Rendition) -> Result<()> {
        self.pages().render(&principal.org, document, rendition).await
    }
}

#[async_trait]
impl NodePeer for Node {
    async fn is_thread_active(&self, org: &OrgId, thread: &ThreadId) -> Result<bool> {
        Ok(self.conversations().is_thread_active(org, thread))
    }

    async fn call_index(&self, org: &OrgId, call: Vec<u8>) -> Result<Vec<u8>> {
        match self.index_calls() {
            Some(index) => index.call(org, call).await,
            None => Err(Error::unavailable(Reason::StoreUnavailable, "the node has no index of passages")),
        }
    }

    async fn status(&self) -> Result<NodeStatus> {
        let now = self.snapshot();
        Ok(NodeStatus {
            incarnation: self.incarnation(),
            draining: now.draining,
            conversations: now.live as u64,
            busy_conversations: now.working as u64,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at(),
        })
    }
}
