//! The state of the model: the stores, two nodes, batches in flight, and the answers that clients received.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use folio_history::journal::{Entry, Intent, WorkingState};
use folio_history::thread::{Append, Appended, OpenTurnRow};
use folio_history::{History, import};
use folio_types::message::Message;
use folio_types::{CallId, Timestamp, limits};
use jiff::SignedDuration;

use super::super::children::Child;
use super::super::store::{Aggregates, ThreadRow, start_time};
use super::scopes::Scope;
use crate::turn::{Effect, Machine};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum Action {
    /// A client sends a request to a node.
    Send { ask: usize, node: usize },
    /// A node performs its next store operation or work.
    Step { node: usize },
    /// A node's batch or write is applied, and its answer is lost.
    AnswerLost { node: usize },
    /// A node's batch does not arrive in time.
    Delayed { node: usize },
    /// A batch or write that no node waits for arrives.
    Arrive { late: usize },
    /// A node is killed.
    Crash { node: usize },
    /// A node takes the thread over because it sees the owner as dead.
    TakeOver { node: usize },
    /// A node that lost the thread loads it again.
    Reload { node: usize },
    /// A node that lost the thread sends its clients to the owner.
    Moved { node: usize },
    /// A node's clock passes the expiry.
    Clock { node: usize },
    /// A model call fails, or the first model call of a tool is refused.
    ModelFails { node: usize },
    /// A client watches a turn at a node that does not run the turn. The node reads the closing event from the journal.
    Watch { node: usize },
    /// Another writer changes the target of a call.
    Edit,
    /// The sweep checks a row of the index of open turns.
    SweepChecks { row: (u32, u64) },
    /// The sweep removes the row that it checked.
    SweepRemoves,
    /// An open child turn ends.
    ChildEnds { child: usize },
    /// The node of an open child turn dies.
    ChildLost { child: usize },
    /// A notice, or the sweep, makes a node read the states of the children.
    Notice { node: usize },
}

#[derive(Debug, Clone)]
pub(in super::super) struct World {
    pub scope: Arc<Scope>,
    pub thread: Arc<Thread>,
    pub aggregates: Arc<Aggregates>,
    /// The children of the group of the first turn, by number.
    pub children: Arc<Vec<Child>>,
    pub nodes: [NodeState; 2],
    pub late: Vec<Late>,
    /// State of each request of the scope.
    pub asks: Vec<AskState>,
    pub received: BTreeSet<Received>,
    /// Ledger keys of the model calls: (turn, round, epoch, attempt).
    pub model_calls: BTreeSet<(u32, u32, u64, u32)>,
    pub sweep: Option<(u32, u64)>,
    pub left: Budget,
    pub violation: Option<&'static str>,
}

/// The stored rows of the thread, and the fold of its journal.
#[derive(Debug, Clone)]
pub(in super::super) struct Thread {
    pub row: ThreadRow,
    pub history: History,
    /// True if a batch overwrote another one.
    pub overwritten: bool,
    fingerprint: u64,
}

#[derive(Debug, Clone, Default)]
pub(in super::super) struct NodeState {
    pub live: Option<Arc<Node>>,
    pub loads: u16,
    /// True if the node's clock has passed the expiry.
    pub late: bool,
}

#[derive(Debug, Clone)]
pub(in super::super) struct Node {
    pub machine: Machine,
    pub todo: VecDeque<Todo>,
    fingerprint: u64,
}

/// Work that a node is about to perform.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Todo {
    pub effect: Effect,
    pub stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum Stage {
    First,
    /// Of a write: the op row was read and did not exist; the value is the target's version at that read. Of an append
    /// with an open-turn row: 0 if the row is stored and the append is not, `u64::MAX` if the append is stored and the
    /// row is not.
    Second(u64),
}

/// A batch or write in flight that no node waits for.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum Late {
    Batch(Arc<Append>),
    Write(CallId, String, Box<Intent>, u64),
    /// The start of the child with this index.
    Start(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in super::super) enum AskState {
    Unsent,
    At(usize),
    Answered,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in super::super) enum Received {
    /// The answer `TURN_EXPIRED` to the request with this index.
    Expired(usize),
    /// A closing event as the answer to decisions: the index of the request, the number of the event, its kind, and
    /// true if a later event can replace it.
    Closing(usize, u64, &'static str, bool),
    /// The closing event of a stream: turn, kind and number.
    Stream(u32, String, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(in super::super) struct Budget {
    pub crashes: u8,
    pub mishaps: u8,
    pub takeovers: u8,
    pub edits: u8,
    pub model_fails: u8,
    pub sweeps: u8,
    pub watches: u8,
    pub notices: u8,
    pub lost_children: u8,
}

/// Returns the entries of a fork whose next turn summarizes the messages that left its window.
fn long_conversation() -> Vec<Entry> {
    let count = limits::WINDOW_MESSAGES + limits::SUMMARY_MESSAGES_MIN as usize;
    let messages = (0..count).map(|number| Message::user(format!("message {number}"))).collect();
    import(messages, &WorkingState::default()).unwrap()
}

impl World {
    pub(in super::super) fn new(scope: Arc<Scope>) -> Self {
        let mut row = ThreadRow::new();
        row.is_fenced = !scope.faults.fence_off;
        if scope.summarizes {
            row.entries = long_conversation();
            row.header.entries = row.entries.len() as u64;
        }
        let history = History::fold(row.entries.iter().cloned());
        Self {
            thread: Arc::new(Thread { row, history, overwritten: false, fingerprint: 0 }),
            aggregates: Arc::new(Aggregates::default()),
            children: Arc::new(vec![Child::Absent; scope.children]),
            nodes: [NodeState::default(), NodeState::default()],
            late: Vec::new(),
            asks: vec![AskState::Unsent; scope.asks.len()],
            received: BTreeSet::new(),
            model_calls: BTreeSet::new(),
            sweep: None,
            left: scope.budget,
            violation: None,
            scope,
        }
    }

    /// Returns the time of a node's clock.
    pub(in super::super) fn now(&self, node: usize) -> Timestamp {
        let seconds = if self.nodes.get(node).is_some_and(|node| node.late) { 1_000 } else { 10 };
        start_time().checked_add(SignedDuration::from_secs(seconds)).unwrap()
    }

    pub(in super::super) fn node(&self, node: usize) -> Option<&Node> {
        self.nodes.get(node)?.live.as_deref()
    }

    pub(in super::super) fn row(&self, row: (u32, u64)) -> OpenTurnRow {
        OpenTurnRow {
            org: self.thread.row.header.org.clone(),
            turn: folio_types::TurnId::new(self.thread.row.header.id.clone(), row.0),
            epoch: row.1,
            at: Timestamp::MIN,
            until: Timestamp::MAX,
        }
    }
}

impl Thread {
    pub(in super::super) fn append(&mut self, append: &Append) -> Appended {
        let is_stale = append.fence.version != self.row.header.version;
        let answer = self.row.append(append);
        if matches!(answer, Appended::Done(_)) {
            self.overwritten |= is_stale;
            append.entries.iter().for_each(|entry| self.history.push(entry.clone()));
            let mut hasher = DefaultHasher::new();
            self.fingerprint.hash(&mut hasher);
            append.batch.hash(&mut hasher);
            hash_debug(&(&append.entries, &append.change, &append.new_owner), &mut hasher);
            self.fingerprint = hasher.finish();
        }
        answer
    }
}

impl Node {
    /// Returns true if the node is about to insert an open-turn row whose append is committed already.
    pub(in super::super) fn is_inserting(&self) -> bool {
        self.todo.iter().any(|todo| matches!(todo.effect, Effect::Append(_)) && todo.stage == Stage::Second(u64::MAX))
    }

    pub(in super::super) fn new(machine: Machine) -> Self {
        let mut node = Self { machine, todo: VecDeque::new(), fingerprint: 0 };
        node.update_fingerprint();
        node
    }

    /// Updates the fingerprint. Must be called after each change.
    pub(in super::super) fn update_fingerprint(&mut self) {
        let mut hasher = DefaultHasher::new();
        let machine = &self.machine;
        let work = (&machine.state, &machine.buffered, &machine.in_flight, &machine.pending_failure, machine.owner);
        hash_debug(&work, &mut hasher);
        hash_debug(&(&machine.waiters, &machine.deferred, machine.next_event, machine.next_batch), &mut hasher);
        hash_debug(&(&machine.children, machine.summary_turn, machine.history.summary()), &mut hasher);
        (machine.header.epoch, machine.header.version).hash(&mut hasher);
        hash_debug(&machine.history.last().map(|record| (&record.rounds, record.usage, &record.ended)), &mut hasher);
        hash_debug(&self.todo, &mut hasher);
        self.fingerprint = hasher.finish();
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.thread.fingerprint.hash(state);
        self.thread.row.open_rows.hash(state);
        self.aggregates.hash(state);
        self.children.hash(state);
        for node in &self.nodes {
            (node.live.as_ref().map(|live| live.fingerprint), node.loads, node.late).hash(state);
        }
        hash_debug(&self.late, state);
        (&self.asks, &self.received, &self.model_calls, self.sweep, self.left, self.violation).hash(state);
    }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        let of = |world: &Self| {
            let mut hasher = DefaultHasher::new();
            world.hash(&mut hasher);
            hasher.finish()
        };
        of(self) == of(other)
    }
}

fn hash_debug(value: &impl std::fmt::Debug, hasher: &mut impl Hasher) {
    struct HasherWriter<'a, H>(&'a mut H);
    impl<H: Hasher> std::fmt::Write for HasherWriter<'_, H> {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }
    let _ = write!(HasherWriter(hasher), "{value:?}");
}
