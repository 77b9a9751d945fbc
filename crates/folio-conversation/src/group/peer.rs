//! Calls to the owners of other threads: of the parent and of the children of a turn.

use std::sync::{OnceLock, Weak};

use folio_history::command::{ChatCommand, DeleteThreadCommand};
use folio_history::peer::SharedPeer;
use folio_types::{Principal, Result, ThreadId, TurnId};

use crate::handle::{Conversations, Node};
use crate::shared::draining;

/// The conversations of all nodes.
pub(crate) struct TurnPeer {
    /// Reaches every node. None: this process is the only node.
    all_nodes: Option<SharedPeer>,
    /// This node. Set once, after its start.
    this_node: OnceLock<Weak<Node>>,
}

impl TurnPeer {
    pub(crate) fn new(all_nodes: Option<SharedPeer>) -> Self {
        Self { all_nodes, this_node: OnceLock::new() }
    }

    pub(crate) fn set_this_node(&self, node: Weak<Node>) {
        let _ = self.this_node.set(node);
    }

    fn this_node(&self) -> Result<Conversations> {
        let node = self.this_node.get().and_then(Weak::upgrade);
        node.map(Conversations::of).ok_or_else(draining)
    }

    /// Starts a turn, or joins, resumes or repeats the turn of the request. Returns once the turn is accepted.
    pub(crate) async fn start(&self, principal: &Principal, message: ChatCommand) -> Result<()> {
        match &self.all_nodes {
            Some(peer) => peer.chat(principal, message).await.map(drop),
            None => self.this_node()?.chat(principal, message).await.map(drop),
        }
    }

    /// Notifies the owner of a turn that one of its children has ended. A watcher makes the owner read the states of the children.
    pub(crate) async fn notify(&self, principal: &Principal, turn: &TurnId) -> Result<()> {
        match &self.all_nodes {
            Some(peer) => peer.watch(principal, turn, 0).await.map(drop),
            None => self.this_node()?.watch(principal, turn, 0).await.map(drop),
        }
    }

    pub(crate) async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<()> {
        match &self.all_nodes {
            Some(peer) => peer.cancel(principal, turn).await.map(drop),
            None => self.this_node()?.cancel(principal, turn).await.map(drop),
        }
    }

    pub(crate) async fn delete_thread(&self, principal: &Principal, thread: ThreadId) -> Result<()> {
        match &self.all_nodes {
            Some(peer) => peer.delete_thread(principal, DeleteThreadCommand { thread, request_id: None }).await,
            None => self.this_node()?.delete_thread(principal, &thread, None).await,
        }
    }
}
