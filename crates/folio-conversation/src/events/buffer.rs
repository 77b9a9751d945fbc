//! The newest events of one turn for all watchers: one bounded buffer instead of a queue per watcher.

use std::collections::VecDeque;
use std::sync::Mutex;

use folio_history::event::{Event, EventKind};
use folio_types::Error;
use tokio::sync::watch;

/// Approximate bytes of a buffered event in addition to its text.
const EVENT_BYTES: usize = 160;

/// Events of a turn. Readers pull by number; a reader that is too slow gets [`PullResult::Evicted`].
#[derive(Debug)]
pub(crate) struct TurnBuffer {
    turn: u32,
    bytes_max: usize,
    count_max: usize,
    inner: Mutex<Inner>,
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    events: VecDeque<Event>,
    bytes: usize,
    /// Number of the next event.
    next: u64,
    closed: Option<Error>,
    /// True if readers must reopen their streams.
    is_redirected: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) enum PullResult {
    /// Events from the requested number on.
    Events(Vec<Event>),
    /// The requested event does not exist yet.
    Empty,
    /// The requested events are unavailable; the reader needs a snapshot.
    Evicted,
    /// The conversation stopped with this error.
    Stopped(Error),
}

impl TurnBuffer {
    /// Returns an empty buffer whose first event will have the number `next`.
    pub(crate) fn new(turn: u32, next: u64, bytes_max: usize, count_max: usize) -> Self {
        let inner = Mutex::new(Inner { next, ..Inner::default() });
        Self { turn, bytes_max, count_max, inner, changed: watch::Sender::new(()) }
    }

    /// Number of the turn in its thread.
    pub(crate) fn turn(&self) -> u32 {
        self.turn
    }

    /// Returns the number of subscribed streams.
    pub(crate) fn followers(&self) -> usize {
        self.changed.receiver_count()
    }

    /// Adds an event and evicts the oldest events beyond the bounds. An event after a closing event starts a new stream
    /// and evicts all earlier events.
    pub(crate) fn push(&self, event: Event) {
        let mut inner = self.lock();
        if inner.events.back().is_some_and(|last| last.kind.is_closing()) {
            inner.events.clear();
            inner.bytes = 0;
        }
        inner.next = event.number.saturating_add(1);
        inner.bytes = inner.bytes.saturating_add(event_bytes(&event));
        inner.events.push_back(event);
        while inner.events.len() > 1 && (inner.bytes > self.bytes_max || inner.events.len() > self.count_max) {
            if let Some(evicted) = inner.events.pop_front() {
                inner.bytes = inner.bytes.saturating_sub(event_bytes(&evicted));
            }
        }
        drop(inner);
        self.changed.send_replace(());
    }

    /// Lets all readers reopen their streams at the conversation.
    pub(crate) fn redirect_readers(&self) {
        self.lock().is_redirected = true;
        self.changed.send_replace(());
    }

    /// Ends the streams of all readers with an error. The first error is kept.
    pub(crate) fn close(&self, error: Error) {
        self.lock().closed.get_or_insert(error);
        self.changed.send_replace(());
    }

    /// Returns the approximate bytes of the buffered events.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.lock().bytes).unwrap_or(u64::MAX)
    }

    /// Returns true if the events from this number on are buffered or will be pushed.
    pub(crate) fn covers(&self, from: u64) -> bool {
        let inner = self.lock();
        let first = inner.events.front().map_or(inner.next, |event| event.number);
        let has_snapshot = inner.events.front().is_some_and(|event| matches!(event.kind, EventKind::Snapshot(_)));
        from <= inner.next && (from >= first || has_snapshot)
    }

    /// Returns at most `max` events from this number on.
    pub(crate) fn pull(&self, from: u64, max: usize) -> PullResult {
        let inner = self.lock();
        let rest = match (inner.is_redirected, &inner.closed) {
            (true, _) => PullResult::Evicted,
            (false, Some(error)) => PullResult::Stopped(error.clone()),
            (false, None) => PullResult::Empty,
        };
        let Some(first) = inner.events.front() else { return rest };
        // A snapshot at the front replaces all earlier events.
        if from < first.number && !matches!(first.kind, EventKind::Snapshot(_)) {
            return PullResult::Evicted;
        }
        let start = inner.events.partition_point(|event| event.number < from);
        let events: Vec<Event> = inner.events.iter().skip(start).take(max).cloned().collect();
        if events.is_empty() { rest } else { PullResult::Events(events) }
    }

    /// The receiver is notified when events are added or the buffer is closed.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Returns the approximate bytes of an event in memory.
fn event_bytes(event: &Event) -> usize {
    let text = match &event.kind {
        EventKind::ThinkingDelta { text } | EventKind::TextDelta { text } => text.len(),
        EventKind::ToolResult { content, .. } => content.len(),
        EventKind::ToolCalls { .. }
        | EventKind::NodeEnded { .. }
        | EventKind::TasksStarted { .. }
        | EventKind::AwaitingApproval { .. }
        | EventKind::Snapshot(_)
        | EventKind::Completed { .. } => folio_history::json_bytes(&event.kind),
        _ => 0,
    };
    EVENT_BYTES.saturating_add(text)
}

#[cfg(test)]
mod tests {
    use folio_types::{ThreadId, TurnId};

    use super::*;

    fn event(number: u64, text: &str) -> Event {
        let turn = TurnId::new(ThreadId::derive(&["t"]), 1);
        Event::new(turn, number, EventKind::TextDelta { text: text.to_owned() })
    }

    #[test]
    fn a_reader_receives_available_events_and_is_notified_of_evicted_events() {
        let buffer = TurnBuffer::new(1, 1, 10_000, 3);
        assert_eq!(buffer.pull(1, 10), PullResult::Empty);
        for number in 1..=5 {
            buffer.push(event(number, "x"));
        }
        assert_eq!(buffer.pull(1, 10), PullResult::Evicted, "invariant 10: bounded by count");
        assert_eq!(buffer.pull(4, 1), PullResult::Events(vec![event(4, "x")]));
        assert_eq!(buffer.pull(6, 10), PullResult::Empty);
        assert!(buffer.covers(3) && buffer.covers(6) && !buffer.covers(2) && !buffer.covers(7));
        buffer.close(crate::events::stopped());
        buffer.close(folio_types::Error::internal("a later error"));
        assert_eq!(buffer.pull(5, 10), PullResult::Events(vec![event(5, "x")]));
        assert_eq!(buffer.pull(6, 10), PullResult::Stopped(crate::events::stopped()));
    }

    #[test]
    fn the_buffer_is_bounded_by_bytes() {
        let buffer = TurnBuffer::new(1, 1, 2_000, 1_000);
        for number in 1..=10 {
            buffer.push(event(number, &"x".repeat(500)));
        }
        assert_eq!(buffer.pull(1, 100), PullResult::Evicted);
        assert!(matches!(buffer.pull(8, 100), PullResult::Events(events) if events.len() == 3));
    }
}
