//! Observable state of a node's conversations, for tests and operators.

use folio_types::ThreadId;

/// The conversations of a node at one point in time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Conversations in memory.
    pub live: usize,
    /// Bytes of the journals whose histories are in memory, and of the buffered events of their newest turns.
    pub history_bytes: u64,
    /// Conversations started so far.
    pub started: u64,
    /// Conversations evicted so far because they were idle.
    pub passivated: u64,
    /// Conversations stopped so far by a fault. A request starts them again.
    pub failed: u64,
    /// Turns accepted so far.
    pub turns_started: u64,
    /// Turns completed so far.
    pub turns_completed: u64,
    /// Turns failed so far. A resumed turn may be counted again.
    pub turns_failed: u64,
    /// Sweeps so far, including failed ones.
    pub sweeps: u64,
    /// Threads taken over so far from another incarnation.
    pub taken_over: u64,
    /// Running tasks: model calls, tool calls, store operations and timers.
    pub tasks: usize,
    /// Conversations with a running turn or a request.
    pub working: usize,
    /// Messages that are queued behind running turns.
    pub queued: usize,
    /// Admitted, unanswered requests.
    pub in_flight: usize,
    /// Streams of turns.
    pub watchers: usize,
    /// True if new work is refused.
    pub draining: bool,
    /// Conversations with work, at most a thousand.
    pub busy: Vec<ConversationView>,
}

/// Activity of one conversation with work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationView {
    pub thread: ThreadId,
    pub phase: ActorPhase,
    /// Admitted, unanswered requests.
    pub in_flight: usize,
    /// Messages that are queued behind the running turn.
    pub queued: usize,
    /// Streams of the turn.
    pub watchers: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum ActorPhase {
    #[default]
    Idle,
    /// Reads or writes the journal.
    Storing,
    /// Waits for a model.
    Model,
    Tools,
}
