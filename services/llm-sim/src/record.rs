//! The bounded record of what the endpoint was sent.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

/// One request as it came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// From 1, over all paths, since the endpoint started or was reset.
    pub number: u64,
    /// The path, such as `/v1/chat/completions`.
    pub path: String,
    /// The body; null where it was no JSON.
    pub body: Value,
    /// Headers by lower-case name, `authorization` replaced by whether it was there.
    pub headers: Vec<(String, String)>,
    /// The script's rule that answered.
    pub rule: Option<String>,
    /// Chunks sent so far (of a stream).
    pub chunks_sent: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The answer is under way.
    Open,
    /// It waits at a gate, or hangs for good.
    Held,
    /// Answered whole.
    Finished,
    /// The client left before the answer was whole.
    ClosedByClient,
    /// Refused, or a fault took the answer's place.
    Failed(String),
}

impl Recorded {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether it is a chat request.
    pub fn is_chat(&self) -> bool {
        self.path.ends_with("/chat/completions")
    }
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    kept: VecDeque<Recorded>,
}

/// Keeps the last requests, and tells who waits of each change.
#[derive(Debug)]
pub(crate) struct Record {
    state: Mutex<State>,
    capacity: usize,
    changes: watch::Sender<u64>,
}

impl Record {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), capacity, changes: watch::Sender::new(0) }
    }

    /// Whether anything is kept at all.
    pub(crate) fn keeps(&self) -> bool {
        self.capacity > 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Enters a request.
    pub(crate) fn enter(self: &Arc<Self>, path: &str, body: Value, headers: Vec<(String, String)>) -> Entry {
        let number = {
            let mut state = self.lock();
            state.next += 1;
            let number = state.next;
            if self.capacity > 0 {
                if state.kept.len() >= self.capacity {
                    state.kept.pop_front();
                }
                let path = path.to_owned();
                let outcome = Outcome::Open;
                state.kept.push_back(Recorded { number, path, body, headers, rule: None, chunks_sent: 0, outcome });
            }
            number
        };
        self.changed();
        Entry { record: Arc::clone(self), number, closed: false }
    }

    fn update(&self, number: u64, change: impl FnOnce(&mut Recorded)) {
        if self.capacity == 0 {
            return;
        }
        if let Some(found) = self.lock().kept.iter_mut().rev().find(|entry| entry.number == number) {
            change(found);
        }
        self.changed();
    }

    /// What is kept, oldest first.
    pub(crate) fn all(&self) -> Vec<Recorded> {
        self.lock().kept.iter().cloned().collect()
    }

    /// Forgets everything and counts from 1 again.
    pub(crate) fn clear(&self) {
        *self.lock() = State::default();
        self.changed();
    }

    /// A receiver that sees each change.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// A request under way. Dropped before it is closed it counts as left by the client.
#[derive(Debug)]
pub(crate) struct Entry {
    record: Arc<Record>,
    pub(crate) number: u64,
    closed: bool,
}

impl Entry {
    /// Notes the rule that answers.
    pub(crate) fn rule(&self, rule: Option<&str>) {
        if let Some(rule) = rule {
            self.record.update(self.number, |entry| entry.rule = Some(rule.to_owned()));
        }
    }

    /// Notes how many chunks were sent.
    pub(crate) fn sent(&self, chunks: u64) {
        self.record.update(self.number, |entry| entry.chunks_sent = chunks);
    }

    /// Notes that it waits, or goes on.
    pub(crate) fn held(&self, held: bool) {
        let outcome = if held { Outcome::Held } else { Outcome::Open };
        self.record.update(self.number, |entry| entry.outcome = outcome);
    }

    /// Notes its end.
    pub(crate) fn close(mut self, outcome: Outcome) {
        self.closed = true;
        self.record.update(self.number, |entry| entry.outcome = outcome);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.closed {
            self.record.update(self.number, |entry| entry.outcome = Outcome::ClosedByClient);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_keeps_the_last_requests_only() {
        let record = Arc::new(Record::new(2));
        for n in 1..=3 {
            record.enter("/v1/models", Value::from(n), Vec::new()).close(Outcome::Finished);
        }
        let numbers: Vec<_> = record.all().into_iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, [2, 3]);
    }

    #[test]
    fn an_entry_that_is_dropped_counts_as_left_by_the_client() {
        let record = Arc::new(Record::new(2));
        drop(record.enter("/v1/chat/completions", Value::Null, Vec::new()));
        assert_eq!(record.all()[0].outcome, Outcome::ClosedByClient);
    }
}
