//! Summaries of messages that left the window of the model.
//!
//! A summary contains whole segments from the start of the thread. Messages that no summary contains yet stay in the window,
//! so that a model always receives each message or its summary.

use folio_types::limits::{SUMMARY_MESSAGES_MIN, WINDOW_MESSAGES};

use super::messages::is_counted;
use super::{History, json_bytes};
use crate::journal::{Entry, Summary};
use folio_types::message::{Message, Usage};

/// The messages that the next summary adds to the newest one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryRange {
    /// The first and the last message, counted as in `Message.count` of the API, from 1.
    pub from: u32,
    pub to: u32,
    /// Number of visible messages that the summary will contain.
    pub messages: u32,
    /// The added messages, in order.
    pub added: Vec<Message>,
}

/// The summary that a fork copies from its source. Its range is counted in the messages of the fork, which may have fewer.
#[derive(Default)]
pub(super) struct CopiedSummary {
    /// None: the copied messages have no summary.
    source: Option<Summary>,
    /// Number of segments of the source that the summary contains.
    segments: usize,
    /// Number of copied messages that the summary contains, and of the user and final assistant messages among them.
    messages: u32,
    counted: u32,
}

impl CopiedSummary {
    /// Returns the bytes of the entry.
    pub(super) fn bytes(&self) -> usize {
        self.source.as_ref().map_or(0, json_bytes)
    }

    /// Counts an entry of the fork with messages of the segment at this index.
    pub(super) fn add(&mut self, segment: usize, entry: &Entry) {
        let Entry::Imported(imported) = entry else { return };
        if segment < self.segments {
            let counted = imported.messages.iter().filter(|message| is_counted(message)).count();
            let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            self.messages = self.messages.saturating_add(number(imported.messages.len()));
            self.counted = self.counted.saturating_add(number(counted));
        }
    }

    /// Returns the entry that follows the messages of the fork. The turns of the source paid for the summary.
    pub(super) fn into_entry(self) -> Option<Entry> {
        let (messages, to) = (self.messages, self.counted);
        let copied = |source: Summary| Summary { turn: 0, from: 1, to, messages, usage: Usage::default(), ..source };
        self.source.map(copied).map(Entry::Summary)
    }
}

impl History {
    /// Returns the newest summary of the first `count` user and final assistant messages (None: all), for a fork with these
    /// messages.
    pub(super) fn summary_of_fork(&self, count: Option<u32>) -> CopiedSummary {
        let mut newest_first = self.summaries.iter().rev();
        let Some(source) = newest_first.find(|summary| count.is_none_or(|count| summary.to <= count)).cloned() else {
            return CopiedSummary::default();
        };
        let segments = self.positions.iter().take_while(|position| position.messages < source.messages).count();
        CopiedSummary { source: Some(source), segments, ..CopiedSummary::default() }
    }

    /// Returns the newest summary. None: no message is summarized.
    pub fn summary(&self) -> Option<&Summary> {
        self.summaries.last()
    }

    /// Returns the range of the next summary. None: fewer than [`SUMMARY_MESSAGES_MIN`] messages before the newest turn have left
    /// the window since the newest summary.
    pub fn due_summary(&self) -> Option<SummaryRange> {
        let total = self.positions.last()?.messages;
        let left = total.saturating_sub(u32::try_from(WINDOW_MESSAGES).unwrap_or(u32::MAX));
        let (covered, counted) = self.summary().map_or((0, 0), |summary| (summary.messages, summary.to));
        if left.saturating_sub(covered) < SUMMARY_MESSAGES_MIN {
            return None;
        }
        let end = self.positions.iter().find(|position| position.messages >= left)?;
        let (skipped, added) = (covered as usize, end.messages.saturating_sub(covered) as usize);
        let added = self.messages().skip(skipped).take(added).map(|visible| visible.message).collect();
        Some(SummaryRange { from: counted.saturating_add(1), to: end.counted, messages: end.messages, added })
    }

    /// Returns the maximum number of messages before the newest turn that its model receives. With summaries, messages that no
    /// summary contains are among them, as far as a failed summary does not make them too many.
    pub fn window_messages(&self, summarizes: bool) -> usize {
        if !summarizes {
            return WINDOW_MESSAGES;
        }
        let total = self.positions.last().map_or(0, |position| position.messages);
        let covered = self.summary().map_or(0, |summary| summary.messages);
        let uncovered = usize::try_from(total.saturating_sub(covered)).unwrap_or(usize::MAX);
        uncovered.clamp(WINDOW_MESSAGES, 2 * WINDOW_MESSAGES)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use folio_types::UserId;
    use folio_types::limits::{ENTRY_BYTES, SUMMARY_BYTES};
    use serde_json::json;

    use super::super::fork::FRAME_BYTES;
    use super::*;
    use crate::journal::{Accepted, End, Ended};
    use folio_types::message::FinishReason;
    use jiff::Timestamp;

    fn turn(number: u32, keep: Option<u32>) -> [Entry; 2] {
        let (user, at) = (UserId::derive(&["u"]), Timestamp::UNIX_EPOCH);
        let request = format!("r{number}").parse().unwrap();
        let accepted = Accepted::new(number, request, user, &format!("question {number}"), at);
        let accepted = Accepted { truncate_to: keep, ..accepted };
        let text = format!("answer {number}");
        let end = End::Completed { text, thinking: Vec::new(), finish: FinishReason::Stop };
        [Entry::Accepted(Box::new(accepted)), Entry::Ended(Box::new(Ended::new(number, end, 2, at)))]
    }

    fn started(number: u32) -> Entry {
        let [accepted, _] = turn(number, None);
        accepted
    }

    fn chat(turns: u32) -> History {
        History::fold((1..=turns).flat_map(|number| turn(number, None)).chain([started(turns + 1)]))
    }

    fn summarize(history: &mut History, turn: u32) -> SummaryRange {
        let range = history.due_summary().unwrap();
        let (from, to, messages) = (range.from, range.to, range.messages);
        let (text, usage, at) = ("earlier".to_owned(), Usage::default(), Timestamp::UNIX_EPOCH);
        history.push(Entry::Summary(Summary { turn, from, to, messages, text, usage, at }));
        range
    }

    #[test]
    fn a_summary_is_due_when_ten_messages_left_the_window() {
        assert_eq!(chat(14).due_summary(), None, "28 messages, of which 8 left");
        let mut history = chat(15);
        let range = summarize(&mut history, 16);
        assert_eq!((range.from, range.to, range.messages, range.added.len()), (1, 10, 10, 10));
        assert_eq!(range.added[0], Message::user("question 1"));
        assert_eq!(history.due_summary(), None);
        assert_eq!(history.window_messages(true), 20);
        assert_eq!(history.window_messages(false), 20);
    }

    #[test]
    fn messages_without_a_summary_stay_in_the_window() {
        assert_eq!(chat(14).window_messages(true), 28);
        assert_eq!(chat(30).window_messages(true), 40, "summaries failed");
        assert_eq!(chat(14).window_messages(false), 20);
    }

    #[test]
    fn each_summary_continues_at_the_end_of_the_one_before_it() {
        let mut history = chat(15);
        summarize(&mut history, 16);
        let [_, ended] = turn(16, None);
        history.push(ended);
        (17..=20).flat_map(|number| turn(number, None)).chain([started(21)]).for_each(|entry| history.push(entry));
        let range = summarize(&mut history, 21);
        assert_eq!((range.from, range.to, range.added.len()), (11, 20, 10));
    }

    #[test]
    fn an_older_version_reads_a_stored_summary_as_an_outcome_without_a_call() {
        let mut history = chat(15);
        summarize(&mut history, 16);
        let mut summary = history.summary().unwrap().clone();
        summary.text = "\u{1}".repeat(SUMMARY_BYTES);
        let entry = Entry::Summary(summary);
        let stored = serde_json::to_value(&entry).unwrap();
        assert_eq!(
            (&stored["entry"], &stored["turn"], &stored["result"]["round"]),
            (&json!("outcome"), &json!(16), &json!(0))
        );
        assert!(json_bytes(&entry) <= ENTRY_BYTES / 2);
        assert_eq!(serde_json::from_value::<Entry>(stored.clone()).unwrap(), entry);
        let mut old = chat(15);
        let before = old.clone();
        old.push(Entry::Outcome(serde_json::from_value(stored).unwrap()));
        assert_eq!((old.last(), old.summary()), (before.last(), None), "the outcome has no effect");
    }

    fn fork(history: &History, count: Option<u32>, bytes: usize) -> History {
        let mut forked = History::fold(history.fork_within(count, bytes).unwrap());
        let [_, ended] = turn(1, None);
        forked.push(started(1));
        forked.push(ended);
        forked
    }

    #[test]
    fn a_fork_copies_the_newest_summary_of_its_messages() {
        let mut history = chat(15);
        summarize(&mut history, 16);
        let [_, ended] = turn(16, None);
        history.push(ended);
        let forked = fork(&history, None, 1024 * 1024);
        let copied = forked.summary().unwrap();
        assert_eq!((copied.turn, copied.from, copied.to, copied.messages), (0, 1, 10, 10));
        assert_eq!((copied.text.as_str(), copied.usage), ("earlier", Usage::default()));
        assert_eq!(forked.messages().count(), 34);
        assert_eq!(forked.window_messages(true), 22, "only messages without a summary");
        let again = fork(&forked, None, 1024 * 1024);
        assert_eq!(again.summary(), Some(copied), "a fork of a fork");
        assert_eq!(fork(&history, Some(10), 1024 * 1024).summary().map(|summary| summary.messages), Some(10));
        assert_eq!(fork(&history, Some(9), 1024 * 1024).summary(), None, "a part of its messages is missing");
        assert_eq!(fork(&chat(2), None, 1024 * 1024).summary(), None);
    }

    #[test]
    fn the_summary_of_a_fork_without_its_oldest_messages_contains_the_note_about_them() {
        let mut history = chat(15);
        summarize(&mut history, 16);
        let [_, ended] = turn(16, None);
        history.push(ended);
        let whole: usize = history.fork_within(None, usize::MAX).unwrap().iter().map(json_bytes).sum();
        let mut seen = BTreeSet::new();
        for bytes in (0..=FRAME_BYTES + whole).step_by(50) {
            let forked = fork(&history, None, bytes);
            let (copied, kept) = (forked.summary().unwrap(), forked.messages().collect::<Vec<_>>());
            let first = &kept[copied.messages as usize];
            assert!(matches!(&first.message, Message::User { text, .. } if text.starts_with("question")), "{kept:?}");
            assert_eq!(first.count, copied.to + 1, "{bytes}");
            let notes = usize::from(matches!(kept[0].message, Message::Assistant { .. }));
            let has_all_without_summary = kept.len() - 2 - notes >= 22;
            if has_all_without_summary {
                assert_eq!(first.message, Message::user("question 6"), "{bytes}");
            }
            seen.insert((notes, has_all_without_summary));
        }
        assert_eq!(seen, BTreeSet::from([(0, true), (1, false), (1, true)]));
    }

    #[test]
    fn a_truncation_drops_the_summaries_of_dropped_messages() {
        let mut history = chat(15);
        summarize(&mut history, 16);
        let [_, ended] = turn(16, None);
        history.push(ended);
        turn(17, Some(12)).into_iter().for_each(|entry| history.push(entry));
        assert_eq!(history.summary().map(|summary| summary.to), Some(10));
        turn(18, Some(8)).into_iter().for_each(|entry| history.push(entry));
        assert_eq!(history.summary(), None);
    }
}
