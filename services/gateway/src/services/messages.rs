//! The messages of a thread, read from its journal: only the entries that a page needs, wherever it is.

use std::collections::HashMap;

use folio_history::History;
use folio_history::journal::{Entry, SegmentPosition};
use folio_history::thread::ThreadHeader;
use folio_proto::v1;
use folio_storage::ThreadStore;
use folio_types::{Error, Result, TurnId};

/// Entries that are read at once where all are.
const ENTRIES_AT_ONCE: usize = 512;
/// Entries of a piece that are read at once.
const ENTRIES_OF_PIECE: usize = 16;

/// Every visible message: the fold of the whole journal.
pub(super) async fn all(threads: &dyn ThreadStore, header: &ThreadHeader) -> Result<Vec<v1::Message>> {
    let mut history = History::new();
    let mut from = 0;
    loop {
        let entries = threads.entries(&header.org, &header.id, from, ENTRIES_AT_ONCE).await?;
        let last = entries.len() < ENTRIES_AT_ONCE;
        for (sequence, entry) in entries {
            from = sequence.saturating_add(1);
            history.push(entry);
        }
        if last {
            return Ok(shown(header, &history, 0).collect());
        }
    }
}

/// Messages as clients see them; `before` user and final assistant ones come before the first.
fn shown<'a>(
    header: &'a ThreadHeader,
    history: &'a History,
    before: u32,
) -> impl Iterator<Item = v1::Message> + use<'a> {
    history.messages().map(move |shown| {
        let turn = shown.turn.map(|number| TurnId::new(header.id.clone(), number).to_string());
        let count = shown.count.saturating_add(before);
        v1::Message { count, turn_id: turn.unwrap_or_default(), ..(&shown.message).into() }
    })
}

/// A reader of single messages by position. The visible pieces (turns, imported messages) lie on each other like a stack;
/// each one's place says how many messages are below it, and names some of the pieces there: so the one that holds a
/// position is found from the newest in steps of halving size, and no other is read whole.
pub(super) struct Reader<'a> {
    threads: &'a dyn ThreadStore,
    header: &'a ThreadHeader,
    /// The newest piece; none: there are no messages.
    top: Option<(u64, SegmentPosition)>,
    /// How many messages there are.
    total: usize,
    places: HashMap<u64, SegmentPosition>,
    /// The piece that was read last: its first position, and its visible messages.
    piece: (usize, Vec<v1::Message>),
}

impl<'a> Reader<'a> {
    /// Reads the newest piece. None where the journal is older than places are: it is to be read whole.
    pub(super) async fn open(threads: &'a dyn ThreadStore, header: &'a ThreadHeader) -> Result<Option<Self>> {
        let mut reader = Self { threads, header, top: None, total: 0, places: HashMap::new(), piece: (0, Vec::new()) };
        let Some(newest) = reader.newest().await? else { return Ok(Some(reader)) };
        let Some(place) = reader.place(newest).await? else { return Ok(None) };
        let messages = reader.read(newest, &place).await?;
        reader.total = place.messages as usize + messages.len();
        reader.piece = (place.messages as usize, messages);
        reader.top = Some((newest, place));
        Ok(Some(reader))
    }

    /// How many messages there are.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// The message at a position, from 0; none behind the last. Neighbours cost one reading of their piece.
    pub(super) async fn message(&mut self, position: usize) -> Result<Option<v1::Message>> {
        let (first, messages) = &self.piece;
        let there = position.checked_sub(*first).and_then(|at| messages.get(at));
        if let Some(message) = there {
            return Ok(Some(message.clone()));
        }
        if position >= self.total {
            return Ok(None);
        }
        let Some((at, place, end)) = self.seek(position).await? else { return Ok(None) };
        let mut messages = self.read(at, &place).await?;
        let first = place.messages as usize;
        messages.truncate(end.saturating_sub(first));
        self.piece = (first, messages);
        Ok(position.checked_sub(first).and_then(|at| self.piece.1.get(at)).cloned())
    }

    /// The piece that holds a position: where it begins, its place, and the position behind its last visible message.
    async fn seek(&mut self, position: usize) -> Result<Option<(u64, SegmentPosition, usize)>> {
        let Some((mut at, mut place)) = self.top.clone() else { return Ok(None) };
        let mut end = self.total;
        let mut power = place.below.len();
        while place.messages as usize > position {
            // The farthest below that still has the position below it, or else the piece right below.
            power = power.min(place.below.len());
            let mut found = None;
            while let Some(step) = power.checked_sub(1) {
                let Some(below) = place.below.get(step).copied() else { break };
                let other = self.place(below).await?.ok_or_else(|| lost(self.header))?;
                if other.messages as usize > position || step == 0 {
                    found = Some((below, other, step));
                    break;
                }
                power = step;
            }
            let Some((below, other, step)) = found else { return Ok(None) };
            if step == 0 {
                end = place.messages as usize;
                power = 1;
            }
            (at, place) = (below, other);
        }
        Ok(Some((at, place, end)))
    }

    /// Where the newest piece begins; none: nothing was said.
    async fn newest(&self) -> Result<Option<u64>> {
        let (mut end, mut count) = (self.header.entries, ENTRIES_OF_PIECE as u64);
        while end > 0 {
            let from = end.saturating_sub(count);
            let entries = self.entries(from, usize::try_from(end - from).unwrap_or(usize::MAX)).await?;
            if let Some((at, _)) = entries.iter().rev().find(|(at, entry)| *at < end && entry.begins()) {
                return Ok(Some(*at));
            }
            (end, count) = (from, count.saturating_mul(2).min(ENTRIES_AT_ONCE as u64));
        }
        Ok(None)
    }

    async fn place(&mut self, at: u64) -> Result<Option<SegmentPosition>> {
        if let Some(place) = self.places.get(&at) {
            return Ok(Some(place.clone()));
        }
        let entries = self.entries(at, 1).await?;
        let place = entries.first().and_then(|(_, entry)| entry.place()).cloned();
        self.places.extend(place.clone().map(|place| (at, place)));
        Ok(place)
    }

    /// The messages of the piece that begins here.
    async fn read(&self, at: u64, place: &SegmentPosition) -> Result<Vec<v1::Message>> {
        let mut history = History::new();
        let mut next = at;
        while next < self.header.entries {
            for (sequence, entry) in self.entries(next, ENTRIES_OF_PIECE).await? {
                if (sequence > at && entry.begins()) || sequence >= self.header.entries {
                    next = self.header.entries;
                    break;
                }
                history.push(entry);
                next = sequence.saturating_add(1);
            }
        }
        Ok(shown(self.header, &history, place.counted).collect())
    }

    /// Entries that must be there.
    async fn entries(&self, from: u64, count: usize) -> Result<Vec<(u64, Entry)>> {
        let entries = self.threads.entries(&self.header.org, &self.header.id, from, count).await?;
        if entries.is_empty() { Err(lost(self.header)) } else { Ok(entries) }
    }
}

/// What the header says is not there any more: the thread was removed in between.
fn lost(header: &ThreadHeader) -> Error {
    Error::not_found("thread", &header.id)
}

#[cfg(test)]
mod tests;
