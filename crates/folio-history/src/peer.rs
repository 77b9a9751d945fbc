//! The interface of nodes: of the node that owns a thread, and of any node that renders a page.

use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::Rendition;
use folio_types::{DocumentId, Principal, Result, ThreadId, TurnId};
use futures::stream::BoxStream;

use crate::command::{
    ApproveAnswer, ApproveCommand, ChatCommand, CreateThreadCommand, DeleteThreadCommand, ForkThreadCommand,
    RenameThreadCommand,
};
use crate::event::{Event, TurnView};
use crate::thread::ThreadView;

/// Events of one turn in order; the last event is a closing event. Dropping the stream never stops the turn. An error
/// means that the stream is lost although the turn may continue: the caller watches the turn again. A slow reader receives
/// adjacent deltas merged into one, or a snapshot if it is too slow.
pub type EventStream = BoxStream<'static, Result<Event>>;

/// The conversations of the node that owns a thread.
///
/// The caller has validated commands and checked the principal's role. The node checks what depends on stored state.
/// Data of another organization is `NOT_FOUND`; so is data of another user, unless the principal is an admin.
#[async_trait]
pub trait ConversationPeer: Send + Sync {
    /// Starts a turn, or joins, resumes or repeats the turn of the request id. An error means that no turn was
    /// accepted.
    async fn chat(&self, principal: &Principal, command: ChatCommand) -> Result<EventStream>;

    /// Records decisions and returns their outcome. Dropping the future does not stop the turn.
    async fn approve(&self, principal: &Principal, command: ApproveCommand) -> Result<ApproveAnswer>;

    /// Resumes a turn that failed retriably and streams its events.
    async fn resume(&self, principal: &Principal, turn: &TurnId) -> Result<EventStream>;

    /// Cancels a turn and returns its state. A turn that has ended is returned unchanged.
    async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView>;

    async fn get_turn(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView>;

    /// None: the thread has no open turn.
    async fn open_turn(&self, principal: &Principal, thread: &ThreadId) -> Result<Option<TurnView>>;

    /// Streams the events of a turn from number `from_event`, or a snapshot and the later events.
    async fn watch(&self, principal: &Principal, turn: &TurnId, from_event: u64) -> Result<EventStream>;

    /// Creates a thread without a message.
    async fn create_thread(&self, principal: &Principal, command: CreateThreadCommand) -> Result<ThreadView>;

    async fn rename_thread(&self, principal: &Principal, command: RenameThreadCommand) -> Result<ThreadView>;

    /// Cancels the running or pending turn, then deletes the thread.
    async fn delete_thread(&self, principal: &Principal, command: DeleteThreadCommand) -> Result<()>;

    /// Copies a thread up to a message into a new thread.
    async fn fork_thread(&self, principal: &Principal, command: ForkThreadCommand) -> Result<ThreadView>;

    /// Makes a rendition of a document and stores it as a blob of the document, at any node.
    async fn render(&self, principal: &Principal, document: &DocumentId, rendition: &Rendition) -> Result<()>;
}

pub type SharedPeer = Arc<dyn ConversationPeer>;
