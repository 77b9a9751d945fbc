//! The port of a node's conversations.

use std::sync::Arc;

use async_trait::async_trait;
use folio_proto::v1;
use folio_types::{Incarnation, OrgId, Principal, Result, ThreadId, Timestamp, TurnId};
use futures::stream::BoxStream;

/// Events of one turn, in order; the last is a closing one. Dropping it ends the stream and never the turn. An error in
/// it means that the stream is lost while the turn may go on: watch it again.
pub type EventStream = BoxStream<'static, Result<v1::Event>>;

/// The conversations of the node that owns a thread, as the gateway sees them.
///
/// Requests have been validated and the role has been checked; the node checks again what protects its state: whose
/// thread it is, and what the store holds. Nothing of another organization, or of another user unless the principal is
/// an admin, is seen or touched: it is `NOT_FOUND`.
#[async_trait]
pub trait ConversationPeer: Send + Sync {
    /// Starts a turn, or joins, resumes or repeats the one of the request id. An error means that it was not accepted.
    async fn chat(&self, principal: &Principal, request: v1::ChatRequest) -> Result<EventStream>;

    /// Records decisions and answers what came of them. Dropping the future stops nothing.
    async fn approve(&self, principal: &Principal, request: v1::ApproveRequest) -> Result<v1::ApproveResponse>;

    /// Goes on with a turn that failed retriably.
    async fn resume(&self, principal: &Principal, turn: &TurnId) -> Result<EventStream>;

    /// Ends a turn as cancelled; one that had ended is given as it is.
    async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<v1::Turn>;

    /// The turn as it is now.
    async fn get_turn(&self, principal: &Principal, turn: &TurnId) -> Result<v1::Turn>;

    /// The open turn of a thread as it is now, or none.
    async fn open_turn(&self, principal: &Principal, thread: &ThreadId) -> Result<Option<v1::Turn>>;

    /// The events of a turn from this number on, or a snapshot and those after it.
    async fn watch(&self, principal: &Principal, turn: &TurnId, from_event: u64) -> Result<EventStream>;

    /// The tools of a profile (empty: the default), in the order in which a model is given them.
    async fn list_tools(&self, profile: &str) -> Result<Vec<v1::Tool>>;

    /// Makes a thread without a message.
    async fn create_thread(&self, principal: &Principal, request: v1::CreateThreadRequest) -> Result<v1::Thread>;

    /// Gives a thread another title.
    async fn rename_thread(&self, principal: &Principal, request: v1::RenameThreadRequest) -> Result<v1::Thread>;

    /// Removes a thread; its running or waiting turn is cancelled first.
    async fn delete_thread(&self, principal: &Principal, request: v1::DeleteThreadRequest) -> Result<()>;

    /// Copies a thread up to a message into a new one.
    async fn fork_thread(&self, principal: &Principal, request: v1::ForkThreadRequest) -> Result<v1::Thread>;
}

/// A peer as the gateway holds it.
pub type SharedPeer = Arc<dyn ConversationPeer>;

/// A node, as other processes of the cluster see it.
#[async_trait]
pub trait NodePeer: ConversationPeer {
    /// Whether a turn of the thread runs there now, or a request of it is under way. Where it is not so and the node takes
    /// nothing new, another may take the thread over.
    async fn holds(&self, org: &OrgId, thread: &ThreadId) -> Result<bool>;

    /// What the node is and has to do.
    async fn status(&self) -> Result<NodeStatus>;
}

/// What a node is and has to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// This life of it.
    pub incarnation: Incarnation,
    /// It takes nothing new; what runs ends in order.
    pub draining: bool,
    /// Conversations in its memory.
    pub conversations: u64,
    /// Conversations that have work.
    pub turns_running: u64,
    /// The version of its program.
    pub version: String,
    /// When it started.
    pub started_at: Timestamp,
}
