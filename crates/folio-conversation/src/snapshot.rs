//! Observable state of a node's conversations, for tests and operators.

use folio_types::ThreadId;

/// The conversations of a node at one time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Conversations in memory.
    pub live: usize,
    /// Size in bytes of the journals whose histories are in memory, including the events of their newest turns.
    pub history_bytes: u64,
    /// Number of conversations that were started.
    pub started: u64,
    /// Number of conversations that left memory because they were idle.
    pub passivated: u64,
    /// Number of conversations that a fault stopped. A request starts them again.
    pub failed: u64,
    /// Number of accepted turns.
    pub turns_started: u64,
    /// Number of completed turns.
    pub turns_completed: u64,
    /// Number of failed turns. A resumed turn may be counted again.
    pub turns_failed: u64,
    /// Number of finished sweeps, including failed ones.
    pub sweeps: u64,
    /// Number of threads that were taken over from another incarnation.
    pub taken_over: u64,
    /// Number of running tasks: model calls, tool calls, store operations and timers.
    pub tasks: usize,
    /// Number of conversations with a running turn or a request.
    pub working: usize,
    /// Number of messages that are queued behind running turns.
    pub queued: usize,
    /// Number of admitted, unanswered requests.
    pub in_flight: usize,
    /// Number of streams that follow turns.
    pub watchers: usize,
    /// True if new work is refused.
    pub draining: bool,
    /// Conversations with work, at most a thousand.
    pub busy: Vec<ConversationView>,
}

/// The activity of one conversation with work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationView {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Current activity.
    pub phase: ActorPhase,
    /// Number of admitted, unanswered requests.
    pub in_flight: usize,
    /// Number of messages that are queued behind the running turn.
    pub queued: usize,
    /// Number of streams that follow the turn.
    pub watchers: usize,
}

/// The activity of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum ActorPhase {
    /// No work.
    #[default]
    Idle,
    /// The conversation reads or writes its journal.
    Storing,
    /// The conversation waits for a model, which may be slow.
    Model,
    /// The conversation runs tools.
    Tools,
}
