//! Appends to a thread: the fence, the change of the header, and the answer of the store.

use folio_types::{Incarnation, Timestamp};
use serde::{Deserialize, Serialize};

use crate::journal::{Entry, WorkingState};
use crate::thread::{OpenTurn, OpenTurnRow, RequestRow, ThreadHeader};

/// The condition of an append: the header must have exactly this epoch and version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    pub epoch: u64,
    pub version: u64,
}

/// Entries and a header change that are committed atomically if the fence matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    /// Identifies the append, so that a caller can look up an unknown outcome.
    pub batch: u128,
    pub fence: Fence,
    /// Entries in order, each with at most [`folio_types::limits::ENTRY_BYTES`] bytes.
    pub entries: Vec<Entry>,
    /// New owner and its epoch (a takeover). None: the owner does not change.
    pub new_owner: Option<(u64, Incarnation)>,
    pub change: HeaderChange,
    /// Row of an accepted turn or a rename. The append is refused if a row with the same request id exists.
    pub request: Option<RequestRow>,
    /// Row of the open-turn index if the append opens, resumes or takes over a turn. The row is stored before the
    /// append.
    pub opens: Option<OpenTurnRow>,
    /// Rows of ended turns, removed by the write that stores `opens`. The periodic sweep removes rows that remain.
    pub removes: Vec<OpenTurnRow>,
    pub at: Timestamp,
}

impl Append {
    /// Creates an append that changes nothing.
    pub fn new(batch: u128, fence: Fence, at: Timestamp) -> Self {
        Self {
            batch,
            fence,
            entries: Vec::new(),
            new_owner: None,
            change: HeaderChange::default(),
            request: None,
            opens: None,
            removes: Vec::new(),
            at,
        }
    }
}

/// Changed fields of the header. None: unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeaderChange {
    pub open_turn: Option<Option<OpenTurn>>,
    pub working: Option<WorkingState>,
    pub title: Option<String>,
    pub model: Option<String>,
    pub turns: Option<u32>,
}

impl HeaderChange {
    pub(crate) fn apply(&self, header: &mut ThreadHeader) {
        let Self { open_turn, working, title, model, turns } = self.clone();
        if let Some(open_turn) = open_turn {
            header.open_turn = open_turn;
        }
        if let Some(working) = working {
            header.working = working;
        }
        if let Some(title) = title {
            header.title = title;
        }
        if model.is_some() {
            header.model = model;
        }
        if let Some(turns) = turns {
            header.turns = turns;
        }
    }
}

/// Number and total bytes of encoded journal entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JournalSize {
    pub entries: u64,
    pub bytes: u64,
}

/// The store's answer to an append. An unknown outcome is an `Err`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Appended {
    /// The append is committed. Contains the header after it.
    Done(Box<ThreadHeader>),
    /// The fence did not match, or the request id exists. Nothing was written. `header`: the current header. `request`:
    /// the existing row of the request id that the append would insert.
    Refused { header: Box<ThreadHeader>, request: Option<RequestRow> },
}

impl Appended {
    pub fn header(self) -> ThreadHeader {
        match self {
            Self::Done(header) | Self::Refused { header, .. } => *header,
        }
    }
}
