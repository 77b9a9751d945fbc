//! The interface of the conversations of a node.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{Principal, Result, ThreadId, TurnId};
use futures::stream::BoxStream;

use crate::command::{
    ApproveAnswer, ApproveCommand, ChatCommand, CreateThreadCommand, DeleteThreadCommand, ForkThreadCommand,
    RenameThreadCommand,
};
use crate::event::{Event, TurnView};
use crate::thread::ThreadView;

/// Events of one turn, in order; the last is a closing event. Dropping the stream never stops the turn. An error means
/// that the stream is lost while the turn may continue: the caller watches the turn again.
pub type EventStream = BoxStream<'static, Result<Event>>;

/// The conversations of the node that owns a thread.
///
/// Commands are validated and the caller's role is checked before. The node checks what depends on its state: the
/// thread's user, and what the stores contain. Data of another organization, or of another user unless the principal is
/// an admin, is
/// `NOT_FOUND`.
#[async_trait]
pub trait ConversationPeer: Send + Sync {
    /// Starts a turn, or joins, resumes or repeats the turn of the request id. Errors: the turn was not accepted.
    async fn chat(&self, principal: &Principal, command: ChatCommand) -> Result<EventStream>;

    /// Records decisions and returns their outcome. Dropping the future stops nothing.
    async fn approve(&self, principal: &Principal, command: ApproveCommand) -> Result<ApproveAnswer>;

    /// Resumes a turn that failed retriably, and streams it.
    async fn resume(&self, principal: &Principal, turn: &TurnId) -> Result<EventStream>;

    /// Cancels a turn and returns it. A turn that has ended is returned unchanged.
    async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView>;

    /// Returns the current state of a turn.
    async fn get_turn(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView>;

    /// Returns the current state of the thread's open turn, or none.
    async fn open_turn(&self, principal: &Principal, thread: &ThreadId) -> Result<Option<TurnView>>;

    /// Streams the events of a turn from a number, or a snapshot and the events after it.
    async fn watch(&self, principal: &Principal, turn: &TurnId, from_event: u64) -> Result<EventStream>;

    /// Creates a thread without a message.
    async fn create_thread(&self, principal: &Principal, command: CreateThreadCommand) -> Result<ThreadView>;

    /// Renames a thread.
    async fn rename_thread(&self, principal: &Principal, command: RenameThreadCommand) -> Result<ThreadView>;

    /// Deletes a thread; its running or pending turn is cancelled first.
    async fn delete_thread(&self, principal: &Principal, command: DeleteThreadCommand) -> Result<()>;

    /// Copies a thread up to a message into a new thread.
    async fn fork_thread(&self, principal: &Principal, command: ForkThreadCommand) -> Result<ThreadView>;
}

/// A shared peer.
pub type SharedPeer = Arc<dyn ConversationPeer>;
