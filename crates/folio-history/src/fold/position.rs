//! Positions of the visible segments, by which a reader finds a message without reading the journal before it.
//!
//! The visible segments are a stack: a turn that truncates removes segments before it pushes its own. The segments
//! below a segment never change, so the entry that starts a segment stores its position once.

use super::messages::is_counted;
use super::record::{RoundRecord, TurnRecord};
use super::{History, Slot};
use crate::journal::{Entry, SegmentPosition};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotPosition {
    /// Sequence number of the first entry of the segment.
    entry: u64,
    /// Number of visible messages before the segment.
    pub(super) messages: u32,
    /// Number of user and final assistant messages before the segment.
    pub(super) counted: u32,
}

impl History {
    /// Returns the position of the next segment after a truncation to the first `keep` user and final assistant
    /// messages (None: no truncation). The newest turn must have ended, and all pushed entries must be appended.
    pub fn position(&self, keep: Option<u32>) -> SegmentPosition {
        let kept = keep.map(|keep| self.slots_with_first(keep));
        let slots = kept.as_deref().unwrap_or(&self.slots);
        let position = self.position_after(slots);
        let steps = (0..u32::BITS).map_while(|power| slots.len().checked_sub(1 << power));
        let below = steps.filter_map(|at| self.positions.get(at)).map(|position| position.entry).collect();
        SegmentPosition { messages: position.messages, counted: position.counted, below }
    }

    pub(super) fn next_position(&self) -> SlotPosition {
        self.position_after(&self.slots)
    }

    /// `slots` is a prefix of the visible slots.
    fn position_after(&self, slots: &[Slot]) -> SlotPosition {
        let (messages, counted) = match slots.last().zip(self.positions.get(slots.len().saturating_sub(1))) {
            None => (0, 0),
            Some((slot, position)) => (
                position.messages.saturating_add(self.slot_messages(*slot)),
                position.counted.saturating_add(self.slot_count(*slot)),
            ),
        };
        SlotPosition { entry: self.entries, messages, counted }
    }

    fn slot_messages(&self, slot: Slot) -> u32 {
        let messages = match slot {
            Slot::Imported { messages, .. } => messages,
            Slot::Turn { user_only: true, .. } => 1,
            Slot::Turn { at, .. } => self.turns.get(at).map_or(0, TurnRecord::size),
        };
        u32::try_from(messages).unwrap_or(u32::MAX)
    }
}

impl TurnRecord {
    /// Returns the number of messages in [`TurnRecord::groups`].
    fn size(&self) -> usize {
        1 + self.rounds.iter().map(RoundRecord::size).sum::<usize>() + usize::from(self.is_answered())
    }
}

impl RoundRecord {
    /// Returns the length of [`RoundRecord::messages`].
    fn size(&self) -> usize {
        match self.unanswered().next() {
            None if self.is_hidden() => 0,
            None => 1 + self.calls.len(),
            Some(_) => usize::from(!self.text.is_empty()),
        }
    }
}

/// Sets the positions of the initial entries of a thread.
pub(super) fn with_positions(mut entries: Vec<Entry>) -> Vec<Entry> {
    let (mut messages, mut counted) = (0u32, 0u32);
    for (at, entry) in entries.iter_mut().enumerate() {
        if let Entry::Imported(imported) = entry {
            let steps = (0..u32::BITS).map_while(|power| at.checked_sub(1 << power));
            imported.position = Some(SegmentPosition { messages, counted, below: steps.map(|at| at as u64).collect() });
            let of_these = imported.messages.iter().filter(|message| is_counted(message)).count();
            messages = messages.saturating_add(u32::try_from(imported.messages.len()).unwrap_or(u32::MAX));
            counted = counted.saturating_add(u32::try_from(of_these).unwrap_or(u32::MAX));
        }
    }
    entries
}
