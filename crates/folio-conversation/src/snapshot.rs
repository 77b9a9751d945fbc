//! Observable state of a node's conversations, for tests and operators.

use folio_types::ThreadId;

/// The conversations of a node at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Conversations in memory.
    pub live: usize,
    /// Size in bytes of the journals whose histories are in memory, including the events of their newest turns.
    pub history_bytes: u64,
    /// Conversations that were started since the node did.
    pub started: u64,
    /// Number of conversations that left memory because they were idle.
    pub passivated: u64,
    /// Conversations that were stopped by a fault and are started again when asked for.
    pub failed: u64,
    /// Turns that were accepted.
    pub turns_started: u64,
    /// Number of completed turns.
    pub turns_completed: u64,
    /// Turns that failed; one that is resumed may fail again.
    pub turns_failed: u64,
    /// Sweeps that ended, successful or not.
    pub sweeps: u64,
    /// Threads that were taken over from another incarnation.
    pub taken_over: u64,
    /// Number of running tasks: model calls, tool calls, store operations and timers.
    pub tasks: usize,
    /// Conversations in memory that have work: a turn that runs, or a request.
    pub working: usize,
    /// Messages that wait behind running turns.
    pub queued: usize,
    /// Requests that were admitted and not answered.
    pub in_flight: usize,
    /// Streams that follow turns.
    pub watchers: usize,
    /// Whether new work is refused.
    pub draining: bool,
    /// Each conversation in memory that has work, at most a thousand.
    pub busy: Vec<ConversationView>,
}

/// The activity of one conversation with work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationView {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Current activity.
    pub phase: ActorPhase,
    /// Requests that were admitted and not answered.
    pub in_flight: usize,
    /// Messages that wait behind the running turn.
    pub queued: usize,
    /// Streams that follow it.
    pub watchers: usize,
}

/// The activity of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum ActorPhase {
    /// Nothing.
    #[default]
    Idle,
    /// The conversation reads or writes its journal.
    Storing,
    /// The conversation waits for a model, which may be slow.
    Model,
    /// The conversation runs tools.
    Tools,
}
