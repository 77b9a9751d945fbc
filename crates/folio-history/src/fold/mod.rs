//! The history of a thread as a pure fold of its journal: entries are pushed in order, and the state can be read after
//! any of them.
//!
//! The history has no second copy: the owner's actor, the thread service and a gateway that reads the journal fold the
//! same entries here. The cost of a push is proportional to its entry, so an event never requires folding the thread
//! again.

mod fork;
mod messages;
mod position;
mod record;
mod sanitize;
mod view;

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod tests;

pub use fork::{import, json_bytes};
pub use messages::{VisibleMessage, call_name};
use position::Mark;
pub use record::{CallRecord, RoundRecord, TurnRecord};
pub use sanitize::sanitize;
pub use view::plain;

use std::sync::Arc;

use crate::journal::{Entry, Imported, WorkingState};
use folio_types::RequestId;

/// The fold of a thread's journal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    imported: Vec<Arc<Imported>>,
    turns: Vec<TurnRecord>,
    /// The visible segments, in order. Later turns may have truncated earlier segments.
    slots: Vec<Slot>,
    /// Position of each visible segment.
    marks: Vec<Mark>,
    /// Number of entries.
    entries: u64,
}

/// A visible segment of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// The first `messages` messages of an imported entry.
    Imported { at: usize, messages: usize },
    /// A turn, or only its user message if a later turn truncated it.
    Turn { at: usize, user_only: bool },
}

impl History {
    /// Returns the history of a thread without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the fold of these entries.
    pub fn fold(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut history = Self::new();
        entries.into_iter().for_each(|entry| history.push(entry));
        history
    }

    /// Adds the next entry. An entry of a turn that was never accepted changes nothing.
    pub fn push(&mut self, entry: Entry) {
        match entry {
            Entry::Imported(imported) => {
                self.marks.push(self.next_mark());
                self.slots.push(Slot::Imported { at: self.imported.len(), messages: imported.messages.len() });
                self.imported.push(Arc::new(imported));
            }
            Entry::Accepted(accepted) => {
                if let Some(count) = accepted.truncate_to {
                    self.truncate(count);
                }
                self.marks.push(self.next_mark());
                self.slots.push(Slot::Turn { at: self.turns.len(), user_only: false });
                self.turns.push(TurnRecord::new(*accepted));
            }
            other => {
                if let Some(record) = other.turn().and_then(|number| self.turn_mut(number)) {
                    record.push(other);
                }
            }
        }
        self.entries = self.entries.saturating_add(1);
    }

    /// Returns every turn, oldest first, including turns that were removed by a truncation.
    pub fn turns(&self) -> &[TurnRecord] {
        &self.turns
    }

    /// Returns the turn with this number.
    pub fn turn(&self, number: u32) -> Option<&TurnRecord> {
        let at = self.turns.binary_search_by_key(&number, TurnRecord::number).ok()?;
        self.turns.get(at)
    }

    /// Returns the turn with this number, for an owner that buffers rounds before it appends them.
    pub fn turn_mut(&mut self, number: u32) -> Option<&mut TurnRecord> {
        let at = self.turns.binary_search_by_key(&number, TurnRecord::number).ok()?;
        self.turns.get_mut(at)
    }

    /// Returns the newest turn.
    pub fn last(&self) -> Option<&TurnRecord> {
        self.turns.last()
    }

    /// Returns the open turn. None: the newest turn has ended, or there is none.
    pub fn open(&self) -> Option<&TurnRecord> {
        self.turns.last().filter(|record| record.ended.is_none())
    }

    /// Returns the turn that a request started.
    pub fn by_request(&self, request: &RequestId) -> Option<&TurnRecord> {
        self.turns.iter().rev().find(|record| record.accepted.request == *request)
    }

    /// Returns the working state after the newest visible segment.
    pub fn working(&self) -> WorkingState {
        self.slots.last().map(|slot| self.working_after(*slot)).unwrap_or_default()
    }
}
