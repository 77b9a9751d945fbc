//! What can be seen of the conversations of a node: tests and operators read the same.

use folio_types::ThreadId;

/// The conversations of a node at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// Conversations in memory.
    pub live: usize,
    /// Bytes of journals whose histories are in memory, with the events of their newest turns.
    pub history_bytes: u64,
    /// Conversations that were started since the node did.
    pub started: u64,
    /// Conversations that left memory because nobody used them.
    pub passivated: u64,
    /// Conversations that were stopped by a fault and are started again when asked for.
    pub failed: u64,
    /// Turns that were accepted.
    pub turns_started: u64,
    /// Turns whose agent came to its end.
    pub turns_completed: u64,
    /// Turns that failed; one that is resumed may fail again.
    pub turns_failed: u64,
    /// Threads that were taken over from another incarnation.
    pub taken_over: u64,
    /// Tasks under way: model calls, tools, store operations, and what keeps time.
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

/// One conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConversationView {
    /// The thread.
    pub thread: ThreadId,
    /// What it does.
    pub phase: ActorPhase,
    /// Requests that were admitted and not answered.
    pub in_flight: usize,
    /// Messages that wait behind the running turn.
    pub queued: usize,
    /// Streams that follow it.
    pub watchers: usize,
}

/// What a conversation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum ActorPhase {
    /// Nothing.
    #[default]
    Idle,
    /// It reads or writes its journal.
    Storing,
    /// It waits for a model: slow is no fault.
    Model,
    /// It runs tools.
    Tools,
}
