//! The history of a thread as a pure fold of its journal. Entries are pushed in order; the state is readable after
//! each.
//!
//! The owner's actor, the thread service and gateways fold the same journal, so no second copy of a history is stored.
//! A push costs time proportional to its entry.

mod fork;
mod messages;
mod position;
mod record;
mod sanitize;
mod summary;
mod view;

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod tests;

pub use fork::{import, json_bytes, shorten_results, starting_from};
pub use messages::{VisibleMessage, model_call_id};
use position::SlotPosition;
pub use record::{CallRecord, Decider, RoundRecord, TurnRecord};
pub use sanitize::sanitize;
pub use summary::SummaryRange;
pub use view::thinking_text;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::journal::{Entry, Imported, Summary, WorkingState};
use folio_types::RequestId;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct History {
    imported: Vec<Arc<Imported>>,
    turns: Vec<TurnRecord>,
    /// Index in `turns` of the newest turn of each request.
    requests: BTreeMap<RequestId, usize>,
    /// Visible segments in order. Segments that a later turn truncated are removed or shortened.
    slots: Vec<Slot>,
    /// Position of each slot.
    positions: Vec<SlotPosition>,
    /// Summaries of visible messages, oldest first.
    summaries: Vec<Summary>,
    /// Number of pushed entries.
    entries: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// The first `messages` messages of an imported entry.
    Imported { at: usize, messages: usize },
    /// A turn, or only its user message if a later turn truncated it.
    Turn { at: usize, user_only: bool },
}

impl History {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn fold(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut history = Self::new();
        entries.into_iter().for_each(|entry| history.push(entry));
        history
    }

    /// Entries of a turn that was never accepted are ignored.
    pub fn push(&mut self, entry: Entry) {
        match entry {
            Entry::Imported(imported) => {
                self.positions.push(self.next_position());
                self.slots.push(Slot::Imported { at: self.imported.len(), messages: imported.messages.len() });
                self.imported.push(Arc::new(imported));
            }
            Entry::Accepted(accepted) => {
                if let Some(count) = accepted.truncate_to {
                    self.truncate(count);
                }
                self.positions.push(self.next_position());
                self.slots.push(Slot::Turn { at: self.turns.len(), user_only: false });
                self.requests.insert(accepted.request.clone(), self.turns.len());
                self.turns.push(TurnRecord::new(*accepted));
            }
            other => {
                if let Entry::Summary(summary) = &other {
                    self.summaries.push(summary.clone());
                }
                if let Some(record) = other.turn().and_then(|number| self.turn_mut(number)) {
                    record.push(other);
                }
            }
        }
        self.entries = self.entries.saturating_add(1);
    }

    /// Returns every turn, oldest first, including truncated turns.
    pub fn turns(&self) -> &[TurnRecord] {
        &self.turns
    }

    pub fn turn(&self, number: u32) -> Option<&TurnRecord> {
        self.turns.get(self.index_of(number)?)
    }

    /// For an owner that buffers rounds before it appends them.
    pub fn turn_mut(&mut self, number: u32) -> Option<&mut TurnRecord> {
        let at = self.index_of(number)?;
        self.turns.get_mut(at)
    }

    fn index_of(&self, number: u32) -> Option<usize> {
        self.turns.binary_search_by_key(&number, TurnRecord::number).ok()
    }

    pub fn last(&self) -> Option<&TurnRecord> {
        self.turns.last()
    }

    /// None: the newest turn has ended, or the thread has no turn.
    pub fn open(&self) -> Option<&TurnRecord> {
        self.turns.last().filter(|record| record.ended.is_none())
    }

    pub fn by_request(&self, request: &RequestId) -> Option<&TurnRecord> {
        self.turns.get(*self.requests.get(request)?)
    }

    /// Returns the working state after the newest visible segment.
    pub fn working(&self) -> WorkingState {
        self.slots.last().map(|slot| self.working_after(*slot)).unwrap_or_default()
    }
}
