//! Beginning a thread with what another one said, or with what a caller brings.

use super::History;
use super::messages::counts;
use super::sanitize::sanitize;
use crate::error::Result;
use crate::journal::{Entry, Imported, WorkingState};
use crate::limits;
use crate::message::Message;

/// What an entry's frame and working state may take beside its messages.
const FRAME_BYTES: usize = 2 * 1024;

impl History {
    /// The first `count` user and final assistant messages (all: none given) as the entries that a fork begins with. The
    /// working state changes where it changed here.
    ///
    /// # Errors
    /// `TOO_LARGE` where a message and its working state fill no entry; stored ones always do.
    pub fn fork(&self, count: Option<u32>) -> Result<Vec<Entry>> {
        let slots = count.map_or_else(|| self.slots.clone(), |count| self.cut(count).0);
        let mut entries = Vec::new();
        for slot in slots {
            let messages = self.groups(slot).into_iter().flatten().collect();
            entries.extend(import(messages, &self.working_after(slot))?);
        }
        Ok(entries)
    }
}

/// Messages, sanitized, as entries within [`limits::ENTRY_BYTES`], with the working state that belongs after them.
///
/// # Errors
/// `TOO_LARGE` where one message (with the results of its calls) fills no entry.
pub fn import(messages: Vec<Message>, working: &WorkingState) -> Result<Vec<Entry>> {
    let room = limits::ENTRY_BYTES.saturating_sub(json_bytes(working)).saturating_sub(FRAME_BYTES);
    let mut entries = Vec::new();
    let mut part: Vec<Message> = Vec::new();
    let mut filled = 0usize;
    for piece in pieces(sanitize(messages)) {
        let bytes = json_bytes(&piece);
        if bytes > room {
            return Err(crate::error::Error::invalid(
                crate::error::Reason::TooLarge,
                "a message is too large to import",
            ));
        }
        if filled + bytes > room {
            entries.push(entry(std::mem::take(&mut part), working));
            filled = 0;
        }
        filled += bytes;
        part.extend(piece);
    }
    if !part.is_empty() {
        entries.push(entry(part, working));
    }
    Ok(entries)
}

fn entry(messages: Vec<Message>, working: &WorkingState) -> Entry {
    Entry::Imported(Imported { messages, working: working.clone() })
}

/// A message that stands alone, or an assistant message with the results of its calls.
fn pieces(messages: Vec<Message>) -> Vec<Vec<Message>> {
    let mut pieces: Vec<Vec<Message>> = Vec::new();
    for message in messages {
        match pieces.last_mut() {
            Some(piece) if matches!(message, Message::Tool { .. }) => piece.push(message),
            _ => pieces.push(vec![message]),
        }
    }
    debug_assert!(pieces.iter().all(|piece| piece.first().is_none_or(|m| counts(m) || piece.len() > 1)));
    pieces
}

/// The bytes of a value as JSON, counted without writing it.
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
