//! Interfaces of a node's conversations, for the gateway and for other nodes.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::command::{
    ApproveCommand, ChatCommand, CreateThreadCommand, DeleteThreadCommand, ForkThreadCommand, RenameThreadCommand,
};
use folio_proto::v1;
use folio_types::{Incarnation, OrgId, Principal, Result, ThreadId, Timestamp, TurnId};
use futures::stream::BoxStream;

/// Events of one turn, in order; the last is a closing event. Dropping the stream never stops the turn. An error means that
/// the stream is lost while the turn may continue: the caller watches the turn again.
pub type EventStream = BoxStream<'static, Result<v1::Event>>;

/// The conversations of the node that owns a thread, as the gateway sees them.
///
/// Commands are validated and the caller's role is checked before. The node checks what depends on its state: the thread's
/// user, and what the stores contain. Data of another organization, or of another user unless the principal is an admin, is
/// `NOT_FOUND`.
#[async_trait]
pub trait ConversationPeer: Send + Sync {
    /// Starts a turn, or joins, resumes or repeats the turn of the request id. Errors: the turn was not accepted.
    async fn chat(&self, principal: &Principal, command: ChatCommand) -> Result<EventStream>;

    /// Records decisions and returns their outcome. Dropping the future stops nothing.
    async fn approve(&self, principal: &Principal, command: ApproveCommand) -> Result<v1::ApproveResponse>;

    /// Resumes a turn that failed retriably, and streams it.
    async fn resume(&self, principal: &Principal, turn: &TurnId) -> Result<EventStream>;

    /// Cancels a turn and returns it. A turn that has ended is returned unchanged.
    async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<v1::Turn>;

    /// Returns the current state of a turn.
    async fn get_turn(&self, principal: &Principal, turn: &TurnId) -> Result<v1::Turn>;

    /// Returns the current state of the thread's open turn, or none.
    async fn open_turn(&self, principal: &Principal, thread: &ThreadId) -> Result<Option<v1::Turn>>;

    /// Streams the events of a turn from a number, or a snapshot and the events after it.
    async fn watch(&self, principal: &Principal, turn: &TurnId, from_event: u64) -> Result<EventStream>;

    /// Creates a thread without a message.
    async fn create_thread(&self, principal: &Principal, command: CreateThreadCommand) -> Result<v1::Thread>;

    /// Renames a thread.
    async fn rename_thread(&self, principal: &Principal, command: RenameThreadCommand) -> Result<v1::Thread>;

    /// Deletes a thread; its running or pending turn is cancelled first.
    async fn delete_thread(&self, principal: &Principal, command: DeleteThreadCommand) -> Result<()>;

    /// Copies a thread up to a message into a new thread.
    async fn fork_thread(&self, principal: &Principal, command: ForkThreadCommand) -> Result<v1::Thread>;
}

/// A peer as the gateway holds it.
pub type SharedPeer = Arc<dyn ConversationPeer>;

/// A node, as other processes of the cluster see it.
#[async_trait]
pub trait NodePeer: ConversationPeer {
    /// Whether a turn of the thread runs on the node or a request on the thread is in progress there. If not, and the
    /// node drains, another node may take the thread over.
    async fn holds(&self, org: &OrgId, thread: &ThreadId) -> Result<bool>;

    /// Returns the identity and the load of the node.
    async fn status(&self) -> Result<NodeStatus>;
}

/// Identity and load of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Incarnation of the node.
    pub incarnation: Incarnation,
    /// Whether the node drains: it accepts no new work, and running turns end normally.
    pub draining: bool,
    /// Conversations in its memory.
    pub conversations: u64,
    /// Conversations that have work.
    pub turns_running: u64,
    /// Version of the program.
    pub version: String,
    /// Time at which the node started.
    pub started_at: Timestamp,
}
