//! The node as the peer of the gateway in the same process, and as the service of its listener for other processes.

use async_trait::async_trait;
use folio_cluster::{ConversationPeer, EventStream, NodePeer, NodeStatus};
use folio_history::command::{
    ApproveCommand, ChatCommand, CreateThreadCommand, DeleteThreadCommand, ForkThreadCommand, RenameThreadCommand,
};
use folio_proto::v1;
use folio_types::{OrgId, Principal, Result, ThreadId, TurnId};
use futures::StreamExt as _;

use crate::{Node, approve_response};

fn events(stream: folio_conversation::EventStream) -> EventStream {
    stream.map(|item| item.map(|event| v1::Event::from(&event))).boxed()
}

#[async_trait]
impl ConversationPeer for Node {
    async fn chat(&self, principal: &Principal, command: ChatCommand) -> Result<EventStream> {
        self.conversations().chat(principal, command).await.map(events)
    }

    async fn approve(&self, principal: &Principal, command: ApproveCommand) -> Result<v1::ApproveResponse> {
        approve_response::convert(&self.conversations().approve(principal, command).await?)
    }

    async fn resume(&self, principal: &Principal, turn: &TurnId) -> Result<EventStream> {
        self.conversations().resume(principal, turn).await.map(events)
    }

    async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<v1::Turn> {
        self.conversations().cancel(principal, turn).await.map(|turn| (&turn).into())
    }

    async fn get_turn(&self, principal: &Principal, turn: &TurnId) -> Result<v1::Turn> {
        self.conversations().get_turn(principal, turn).await.map(|turn| (&turn).into())
    }

    async fn open_turn(&self, principal: &Principal, thread: &ThreadId) -> Result<Option<v1::Turn>> {
        let open = self.conversations().open_turn(principal, thread).await?;
        Ok(open.map(|turn| (&turn).into()))
    }

    async fn watch(&self, principal: &Principal, turn: &TurnId, from_event: u64) -> Result<EventStream> {
        self.conversations().watch(principal, turn, from_event).await.map(events)
    }

    async fn create_thread(&self, principal: &Principal, command: CreateThreadCommand) -> Result<v1::Thread> {
        self.conversations().create_thread(principal, command).await.map(|thread| (&thread).into())
    }

    async fn rename_thread(&self, principal: &Principal, command: RenameThreadCommand) -> Result<v1::Thread> {
        let RenameThreadCommand { thread, title, request_id } = command;
        let thread = self.conversations().rename_thread(principal, &thread, title, request_id).await?;
        Ok((&thread).into())
    }

    async fn delete_thread(&self, principal: &Principal, command: DeleteThreadCommand) -> Result<()> {
        self.conversations().delete_thread(principal, &command.thread, command.request_id.as_ref()).await
    }

    async fn fork_thread(&self, principal: &Principal, command: ForkThreadCommand) -> Result<v1::Thread> {
        self.conversations().fork_thread(principal, command).await.map(|thread| (&thread).into())
    }
}

#[async_trait]
impl NodePeer for Node {
    async fn holds(&self, org: &OrgId, thread: &ThreadId) -> Result<bool> {
        Ok(self.conversations().holds(org, thread))
    }

    async fn status(&self) -> Result<NodeStatus> {
        let now = self.snapshot();
        Ok(NodeStatus {
            incarnation: self.incarnation(),
            draining: now.draining,
            conversations: now.live as u64,
            turns_running: now.working as u64,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: self.started_at(),
        })
    }
}
