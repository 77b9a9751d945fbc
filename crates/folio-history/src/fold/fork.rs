//! Journal entries of a new thread that starts with messages of another thread or of a request.

use super::History;
use super::messages::grouped;
use super::position::with_positions;
use super::sanitize::sanitize;
use crate::journal::{Entry, Imported, WorkingState};
use folio_types::Result;
use folio_types::limits;
use folio_types::message::Message;

/// Bytes reserved in an entry for everything except its messages and working state.
const FRAME_BYTES: usize = 2 * 1024;

/// Text of the first message of a fork whose source was not copied completely.
const OMISSION_NOTE: &str = "(Earlier messages are omitted: a fork copies the newest part of a long thread. The source thread still \
                        contains them.)";
/// Suffix of a truncated text.
const TRUNCATION_NOTE: &str = "\n[truncated: too long for a fork]";
/// Minimum bytes to which a text is cut.
const RESULT_FLOOR: usize = 1_024;

impl History {
    /// Returns the entries of a fork: the first `count` user and final assistant messages with the messages between
    /// them (None: all). Each entry has the working state that its source had.
    ///
    /// A fork is bounded by [`limits::FORK_BYTES`] and [`limits::FORK_TURNS`]: it contains the newest part that fits,
    /// after a message that states the omission. Calls keep their results. A message that does not fit into an entry is
    /// visibly truncated.
    ///
    /// # Errors
    /// `TOO_LARGE` if a working state alone fills an entry; no stored working state is that large.
    pub fn fork(&self, count: Option<u32>) -> Result<Vec<Entry>> {
        let slots = count.map_or_else(|| self.slots.clone(), |count| self.slots_with_first(count).0);
        let mut newest_first: Vec<Entry> = Vec::new();
        let (mut bytes, mut turns) = (FRAME_BYTES, 0usize);
        for (at, slot) in slots.iter().enumerate().rev() {
            let working = self.working_after(*slot);
            let bytes_max = bytes_max(&working);
            let fitting = self.groups(*slot).into_iter().map(|group| fit(group, bytes_max));
            let entries = import(fitting.flatten().collect(), &working)?;
            let whole = newest_first.len();
            for entry in entries.into_iter().rev() {
                bytes = bytes.saturating_add(json_bytes(&entry));
                turns = turns.saturating_add(users(&entry));
                if bytes > limits::FORK_BYTES || turns > limits::FORK_TURNS {
                    let before = if newest_first.len() == whole { Some(at) } else { at.checked_sub(1) };
                    let before = before.and_then(|at| slots.get(at)).map(|slot| self.working_after(*slot));
                    newest_first.push(omission_entry(&before.unwrap_or_default()));
                    newest_first.reverse();
                    return Ok(with_positions(newest_first));
                }
                newest_first.push(entry);
            }
        }
        newest_first.reverse();
        Ok(with_positions(newest_first))
    }
}

/// Returns the bytes that an entry with this working state can use for messages.
fn bytes_max(working: &WorkingState) -> usize {
    limits::ENTRY_BYTES.saturating_sub(json_bytes(working)).saturating_sub(FRAME_BYTES)
}

fn users(entry: &Entry) -> usize {
    match entry {
        Entry::Imported(imported) => imported.messages.iter().filter(|m| matches!(m, Message::User { .. })).count(),
        _ => 0,
    }
}

fn omission_entry(working: &WorkingState) -> Entry {
    let note = Message::Assistant { text: OMISSION_NOTE.to_owned(), thinking: Vec::new(), calls: Vec::new() };
    entry(vec![note], working)
}

/// Shrinks a segment to `bytes_max`: cuts its longest results, then drops its calls and cuts its text.
fn fit(mut group: Vec<Message>, bytes_max: usize) -> Vec<Message> {
    let mut longest = limits::TOOL_RESULT_BYTES;
    while json_bytes(&group) > bytes_max && longest > RESULT_FLOOR {
        longest /= 2;
        for message in &mut group {
            if let Message::Tool { content, .. } = message {
                truncate_text(content, longest);
            }
        }
    }
    if json_bytes(&group) > bytes_max {
        group.truncate(1);
        group.iter_mut().for_each(|message| reduce_to_text(message, bytes_max));
    }
    group
}

/// Drops everything but the text of a message, and cuts it to `bytes_max`.
fn reduce_to_text(message: &mut Message, bytes_max: usize) {
    let mut longest = bytes_max;
    if let Message::Assistant { text, thinking, calls } = message {
        (*thinking, *calls) = (Vec::new(), Vec::new());
        if text.is_empty() {
            text.push_str("(The calls of this round are left out.)");
        }
    }
    while json_bytes(message) > bytes_max && longest > RESULT_FLOOR {
        longest /= 2;
        match message {
            Message::User { text } | Message::Assistant { text, .. } => truncate_text(text, longest),
            Message::Tool { content, .. } => truncate_text(content, longest),
        }
    }
}

fn truncate_text(text: &mut String, longest: usize) {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest.saturating_sub(TRUNCATION_NOTE.len())));
        text.push_str(TRUNCATION_NOTE);
    }
}

/// Sanitizes messages and returns them as entries within [`limits::ENTRY_BYTES`], each with the working state.
///
/// # Errors
/// `TOO_LARGE` if one message with the results of its calls does not fit into an entry.
pub fn import(messages: Vec<Message>, working: &WorkingState) -> Result<Vec<Entry>> {
    let bytes_max = bytes_max(working);
    let mut entries = Vec::new();
    let mut part: Vec<Message> = Vec::new();
    let mut filled = 0usize;
    for group in grouped(sanitize(messages).into_iter()) {
        let bytes = json_bytes(&group);
        if bytes > bytes_max {
            let message = format!("a message has {bytes} bytes; the maximum is {bytes_max}");
            return Err(folio_types::Error::invalid(folio_types::Reason::TooLarge, message));
        }
        if filled + bytes > bytes_max {
            entries.push(entry(std::mem::take(&mut part), working));
            filled = 0;
        }
        filled += bytes;
        part.extend(group);
    }
    if !part.is_empty() {
        entries.push(entry(part, working));
    }
    Ok(with_positions(entries))
}

fn entry(messages: Vec<Message>, working: &WorkingState) -> Entry {
    Entry::Imported(Imported { messages, working: working.clone(), position: None })
}

/// Returns the size of a value as JSON without serializing it into memory. `usize::MAX` if it cannot be serialized.
pub fn json_bytes(value: &impl serde::Serialize) -> usize {
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => usize::MAX,
    }
}

struct Counter(usize);

impl std::io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
