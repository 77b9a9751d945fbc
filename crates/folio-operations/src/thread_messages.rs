//! Reads the messages of a thread from its journal. A page reads only the entries that it requires.

use std::collections::HashMap;

use folio_history::History;
use folio_history::journal::{Entry, SegmentPosition};
use folio_history::task::GroupView;
use folio_history::thread::ThreadHeader;
use folio_storage::ThreadStore;
use folio_types::message::Message;
use folio_types::{Error, Result, TurnId};
use serde::Serialize;

/// Number of entries that one read of a whole journal requests.
const ENTRIES_AT_ONCE: usize = 512;
/// Number of entries that one read of a segment requests.
const SEGMENT_ENTRIES_AT_ONCE: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadMessage {
    /// Number of user and final assistant messages up to and including this one, from 1.
    pub count: u32,
    /// None: the thread started with the message.
    pub turn: Option<TurnId>,
    pub message: Message,
    /// The child turns of the calls in the message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupView>,
}

/// Reads the whole journal of a thread, at most 32 MiB. The history requires about as much memory.
pub(crate) async fn history(threads: &dyn ThreadStore, header: &ThreadHeader) -> Result<History> {
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
            return Ok(history);
        }
    }
}

/// The visible messages of a history that starts after `before` user and final assistant messages.
pub(crate) fn visible<'a>(
    header: &'a ThreadHeader,
    history: &'a History,
    before: u32,
) -> impl Iterator<Item = ThreadMessage> + use<'a> {
    history.messages().map(move |found| ThreadMessage {
        count: found.count.saturating_add(before),
        groups: found.turn.map(|turn| history.groups_of(&header.id, turn, &found.message)).unwrap_or_default(),
        turn: found.turn.map(|number| TurnId::new(header.id.clone(), number)),
        message: found.message,
    })
}

/// A reader of single messages by position.
///
/// A segment is a turn, or the messages with which a thread started. Each segment stores its [`SegmentPosition`]: the
/// number of messages before it, and the starts of some earlier segments. A search from the newest segment with steps
/// of halving size finds the segment that contains a message, and only that segment is read completely.
pub(crate) struct Reader<'a> {
    threads: &'a dyn ThreadStore,
    header: &'a ThreadHeader,
    /// The start and the position of the newest segment. None: the thread has no messages.
    newest: Option<(u64, SegmentPosition)>,
    total: usize,
    /// Positions that were read, by the start of their segment.
    positions: HashMap<u64, SegmentPosition>,
    /// The segment that was read last: the position of its first message, and its visible messages.
    segment: (usize, Vec<ThreadMessage>),
}

impl<'a> Reader<'a> {
    /// Reads the newest segment. None: the journal has no stored positions and must be read completely.
    pub(crate) async fn open(threads: &'a dyn ThreadStore, header: &'a ThreadHeader) -> Result<Option<Self>> {
        let segment = (0, Vec::new());
        let mut reader = Self { threads, header, newest: None, total: 0, positions: HashMap::new(), segment };
        let Some(start) = reader.newest_start().await? else { return Ok(Some(reader)) };
        let Some(position) = reader.position(start).await? else { return Ok(None) };
        let messages = reader.read(start, &position).await?;
        reader.total = position.messages as usize + messages.len();
        reader.segment = (position.messages as usize, messages);
        reader.newest = Some((start, position));
        Ok(Some(reader))
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Returns the message at a position, counted from 0. None: the position is after the last message. Several
    /// messages of one segment cost one read of the segment.
    pub(crate) async fn message(&mut self, position: usize) -> Result<Option<ThreadMessage>> {
        let (first, messages) = &self.segment;
        let cached = position.checked_sub(*first).and_then(|at| messages.get(at));
        if let Some(message) = cached {
            return Ok(Some(message.clone()));
        }
        if position >= self.total {
            return Ok(None);
        }
        let Some((start, found, end)) = self.seek(position).await? else { return Ok(None) };
        let mut messages = self.read(start, &found).await?;
        let first = found.messages as usize;
        messages.truncate(end.saturating_sub(first));
        self.segment = (first, messages);
        Ok(position.checked_sub(first).and_then(|at| self.segment.1.get(at)).cloned())
    }

    /// Returns the segment that contains a message: its start, its position, and the position after its last visible
    /// message.
    async fn seek(&mut self, position: usize) -> Result<Option<(u64, SegmentPosition, usize)>> {
        let Some((mut at, mut segment)) = self.newest.clone() else { return Ok(None) };
        let mut end = self.total;
        let mut power = segment.below.len();
        while segment.messages as usize > position {
            // Finds the farthest referenced segment that still starts after the position, otherwise the preceding segment.
            power = power.min(segment.below.len());
            let mut found = None;
            while let Some(step) = power.checked_sub(1) {
                let Some(below) = segment.below.get(step).copied() else { break };
                let other = self.position(below).await?.ok_or_else(|| deleted(self.header))?;
                if other.messages as usize > position || step == 0 {
                    found = Some((below, other, step));
                    break;
                }
                power = step;
            }
            let Some((below, other, step)) = found else { return Ok(None) };
            if step == 0 {
                end = segment.messages as usize;
                power = 1;
            }
            (at, segment) = (below, other);
        }
        Ok(Some((at, segment, end)))
    }

    /// None: the thread has no messages.
    async fn newest_start(&self) -> Result<Option<u64>> {
        let (mut end, mut count) = (self.header.entries, SEGMENT_ENTRIES_AT_ONCE as u64);
        while end > 0 {
            let from = end.saturating_sub(count);
            let entries = self.entries(from, usize::try_from(end - from).unwrap_or(usize::MAX)).await?;
            if let Some((at, _)) = entries.iter().rev().find(|(at, entry)| *at < end && entry.starts_segment()) {
                return Ok(Some(*at));
            }
            (end, count) = (from, count.saturating_mul(2).min(ENTRIES_AT_ONCE as u64));
        }
        Ok(None)
    }

    /// Returns the stored position of the segment that starts at entry `at`. None: the entry has no stored position.
    async fn position(&mut self, at: u64) -> Result<Option<SegmentPosition>> {
        if let Some(position) = self.positions.get(&at) {
            return Ok(Some(position.clone()));
        }
        let entries = self.entries(at, 1).await?;
        let position = entries.first().and_then(|(_, entry)| entry.position()).cloned();
        self.positions.extend(position.clone().map(|position| (at, position)));
        Ok(position)
    }

    /// Returns the messages of the segment that starts at entry `at`.
    async fn read(&self, at: u64, position: &SegmentPosition) -> Result<Vec<ThreadMessage>> {
        let mut history = History::new();
        let mut next = at;
        while next < self.header.entries {
            for (sequence, entry) in self.entries(next, SEGMENT_ENTRIES_AT_ONCE).await? {
                if (sequence > at && entry.starts_segment()) || sequence >= self.header.entries {
                    next = self.header.entries;
                    break;
                }
                history.push(entry);
                next = sequence.saturating_add(1);
            }
        }
        Ok(visible(self.header, &history, position.counted).collect())
    }

    /// Error: `NOT_FOUND` if there are no entries, because the thread was deleted after its header was read.
    async fn entries(&self, from: u64, count: usize) -> Result<Vec<(u64, Entry)>> {
        let entries = self.threads.entries(&self.header.org, &self.header.id, from, count).await?;
        if entries.is_empty() { Err(deleted(self.header)) } else { Ok(entries) }
    }
}

fn deleted(header: &ThreadHeader) -> Error {
    Error::not_found("thread", &header.id)
}

#[cfg(test)]
mod tests;
