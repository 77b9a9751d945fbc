//! Journal entries of a new thread that starts with messages of another thread or of a request.

use super::History;
use super::messages::grouped;
use super::position::with_positions;
use super::sanitize::sanitize;
use super::summary::CopiedSummary;
use crate::journal::{Entry, Imported, WorkingState};
use folio_types::Result;
use folio_types::limits;
use folio_types::message::Message;
use folio_types::truncate_bytes;

/// Bytes reserved in an entry for everything except its messages and working state.
pub(super) const FRAME_BYTES: usize = 2_048;

/// Text of the first message of a fork whose source was not copied completely.
const OMISSION_NOTE: &str = "(Earlier messages are omitted: a fork copies the newest part of a long thread. The source \
                             thread still contains them.)";
/// Suffix of a truncated text.
const TRUNCATION_NOTE: &str = "\n[truncated: too long for a fork]";
/// Bound in bytes: a text is not truncated further once its maximum length is this bound or less.
const TEXT_BYTES_MIN: usize = 1_024;

impl History {
    /// Returns the entries of a fork: the first `count` user and final assistant messages with the messages between
    /// them (None: all). Each entry has the working state that its source had.
    ///
    /// A fork is bounded by [`limits::FORK_BYTES`] and [`limits::FORK_TURNS`]: it contains the newest part that fits,
    /// after a message that states the omission. Calls keep their results. A message that does not fit into an entry is
    /// visibly truncated. The newest summary of the copied messages is copied, too: the fork could only summarize the messages that
    /// it contains.
    ///
    /// # Errors
    /// `TOO_LARGE` if a working state alone fills an entry; no stored working state is that large.
    pub fn fork(&self, count: Option<u32>) -> Result<Vec<Entry>> {
        self.fork_within(count, limits::FORK_BYTES)
    }

    /// Like [`History::fork`], with another maximum size.
    pub(super) fn fork_within(&self, count: Option<u32>, fork_bytes: usize) -> Result<Vec<Entry>> {
        let slots = count.map_or_else(|| self.slots.clone(), |count| self.slots_with_first(count));
        let mut summary = self.summary_of_fork(count);
        let mut newest_first: Vec<Entry> = Vec::new();
        let (mut bytes, mut turns) = (FRAME_BYTES + summary.bytes(), 0usize);
        for (at, slot) in slots.iter().enumerate().rev() {
            let working = self.working_after(*slot);
            let bytes_max = bytes_max(&working);
            let fitting = self.groups(*slot).into_iter().map(|group| fit(group, bytes_max));
            let entries = import(fitting.flatten().collect(), &working)?;
            let copied = newest_first.len();
            for entry in entries.into_iter().rev() {
                bytes = bytes.saturating_add(json_bytes(&entry));
                turns = turns.saturating_add(users(&entry));
                if bytes > fork_bytes || turns > limits::FORK_TURNS {
                    let before = if newest_first.len() == copied { Some(at) } else { at.checked_sub(1) };
                    let before = before.and_then(|at| slots.get(at)).map(|slot| self.working_after(*slot));
                    let omission = omission_entry(&before.unwrap_or_default());
                    summary.add(0, &omission);
                    newest_first.push(omission);
                    return Ok(fork_entries(newest_first, summary));
                }
                summary.add(at, &entry);
                newest_first.push(entry);
            }
        }
        Ok(fork_entries(newest_first, summary))
    }
}

/// Returns the entries of a fork in order: its messages, and then the summary of the first ones.
fn fork_entries(mut newest_first: Vec<Entry>, summary: CopiedSummary) -> Vec<Entry> {
    newest_first.reverse();
    let mut entries = with_positions(newest_first);
    entries.extend(summary.into_entry());
    entries
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

/// Halves the maximum length of tool results until the messages fit or the maximum is at most 1 KiB. A truncated result ends
/// with `note`.
pub fn shorten_results(messages: &mut [Message], note: &str, fits: impl Fn(&[Message]) -> bool) {
    let mut longest = limits::TOOL_RESULT_BYTES;
    while !fits(messages) && longest > TEXT_BYTES_MIN {
        longest /= 2;
        for message in messages.iter_mut() {
            if let Message::Tool { content, .. } = message {
                truncate_bytes(content, longest, note);
            }
        }
    }
}

/// Shrinks a message with its tool results to `bytes_max`: truncates the longest results, then drops all calls and truncates the
/// text of the message.
fn fit(mut group: Vec<Message>, bytes_max: usize) -> Vec<Message> {
    shorten_results(&mut group, TRUNCATION_NOTE, |group| json_bytes(&group) <= bytes_max);
    if json_bytes(&group) > bytes_max {
        group.truncate(1);
        group.iter_mut().for_each(|message| reduce_to_text(message, bytes_max));
    }
    group
}

/// Drops everything but the text of a message, and truncates the text until the message has at most `bytes_max`, or the text is
/// about 1 KiB.
pub(super) fn reduce_to_text(message: &mut Message, bytes_max: usize) {
    let mut longest = bytes_max;
    if let Message::Assistant { text, thinking, calls } = message {
        (*thinking, *calls) = (Vec::new(), Vec::new());
        if text.is_empty() {
            text.push_str("(The calls of this round are omitted.)");
        }
    }
    while json_bytes(&[&*message]) > bytes_max && longest > TEXT_BYTES_MIN {
        longest /= 2;
        let (Message::User { text, .. } | Message::Assistant { text, .. } | Message::Tool { content: text, .. }) =
            message;
        truncate_bytes(text, longest, TRUNCATION_NOTE);
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

/// Returns the entries of a new thread that has a working state and no messages.
pub fn starting_from(working: &WorkingState) -> Vec<Entry> {
    with_positions(vec![entry(Vec::new(), working)])
}

fn entry(messages: Vec<Message>, working: &WorkingState) -> Entry {
    Entry::Imported(Imported { messages, working: working.clone(), position: None })
}

/// Returns the size of the JSON of a value in bytes, without an allocation for the JSON. `usize::MAX`: the value cannot be serialized.
pub fn json_bytes(value: &impl serde::Serialize) -> usize {
    folio_types::json::size(value).unwrap_or(usize::MAX)
}
