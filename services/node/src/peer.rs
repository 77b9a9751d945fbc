//! The node as the peer of a gateway in the same process, and as what its listener serves to other processes.

use async_trait::async_trait;
use folio_cluster::{ConversationPeer, EventStream, NodePeer, NodeStatus};
use folio_proto::{thread, v1};
use folio_types::{OrgId, Principal, Result, ThreadId, TurnId};
use futures::StreamExt as _;

use crate::{Node, commands};

fn events(stream: folio_conversation::EventStream) -> EventStream {
    stream.map(|item| item.map(|event| v1::Event::from(&event))).boxed()
}

#[async_trait]
impl ConversationPeer for Node {
    async fn chat(&self, principal: &Principal, request: v1::ChatRequest) -> Result<EventStream> {
        self.conversations().chat(principal, commands::chat(request)?).await.map(events)
    }

    async fn approve(&self, principal: &Principal, request: v1::ApproveRequest) -> Result<v1::ApproveResponse> {
        let answer = self.conversations().approve(principal, commands::approve(request)?).await?;
        commands::approved(&answer)
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

    async fn list_tools(&self, profile: &str) -> Result<Vec<v1::Tool>> {
        let tools = self.conversations().list_tools(Some(profile).filter(|profile| !profile.is_empty()))?;
        Ok(tools.iter().map(commands::tool).collect())
    }

    async fn create_thread(&self, principal: &Principal, request: v1::CreateThreadRequest) -> Result<v1::Thread> {
        let command = commands::new_thread(&request)?;
        self.conversations().create_thread(principal, command).await.map(|thread| (&thread).into())
    }

    async fn rename_thread(&self, principal: &Principal, request: v1::RenameThreadRequest) -> Result<v1::Thread> {
        let input = thread::rename(&request)?;
        let thread = self.conversations().rename_thread(principal, &input.thread, input.title, input.request).await?;
        Ok((&thread).into())
    }

    async fn delete_thread(&self, principal: &Principal, request: v1::DeleteThreadRequest) -> Result<()> {
        let input = thread::delete(&request)?;
        self.conversations().delete_thread(principal, &input.thread, input.request.as_ref()).await
    }

    async fn fork_thread(&self, principal: &Principal, request: v1::ForkThreadRequest) -> Result<v1::Thread> {
        let command = commands::fork(&request)?;
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
