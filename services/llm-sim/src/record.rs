//! A bounded record of received requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedRequest {
    /// Number of the request over all paths since the start or the last reset, from 1.
    pub number: u64,
    /// Path of the request, such as `/v1/chat/completions`.
    pub path: String,
    /// Body, or its hash as a number ([`crate::LlmSimBuilder::hash_bodies`]). Null if it is not JSON.
    pub body: Value,
    /// Headers by lower-case name. The value of `authorization` is `present`.
    pub headers: Vec<(String, String)>,
    /// Number of chunks of the stream that were sent.
    pub chunks_sent: u64,
    pub outcome: Outcome,
}

/// State or outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The response is being sent.
    Open,
    /// The response waits at a gate or hangs.
    Waiting,
    /// The response was sent completely.
    Finished,
    /// The client disconnected before the response was complete.
    ClosedByClient,
    /// The request was refused, or a fault replaced the response.
    Failed(String),
}

impl RecordedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn is_chat(&self) -> bool {
        self.path.ends_with("/chat/completions")
    }
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    requests: VecDeque<RecordedRequest>,
}

/// Stores the newest requests and notifies subscribers of each change.
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

    pub(crate) fn is_enabled(&self) -> bool {
        self.capacity > 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub(crate) fn record(self: &Arc<Self>, path: &str, body: Value, headers: Vec<(String, String)>) -> Entry {
        let number = {
            let mut state = self.lock();
            state.next += 1;
            let number = state.next;
            if self.capacity > 0 {
                if state.requests.len() >= self.capacity {
                    state.requests.pop_front();
                }
                let path = path.to_owned();
                let outcome = Outcome::Open;
                state.requests.push_back(RecordedRequest { number, path, body, headers, chunks_sent: 0, outcome });
            }
            number
        };
        self.changed();
        Entry { record: Arc::clone(self), number, closed: false }
    }

    fn update(&self, number: u64, change: impl FnOnce(&mut RecordedRequest)) {
        if self.capacity == 0 {
            return;
        }
        if let Some(found) = self.lock().requests.iter_mut().rev().find(|entry| entry.number == number) {
            change(found);
        }
        self.changed();
    }

    /// Returns the stored requests, oldest first.
    pub(crate) fn all(&self) -> Vec<RecordedRequest> {
        self.lock().requests.iter().cloned().collect()
    }

    /// Removes all requests and restarts the numbers at 1.
    pub(crate) fn clear(&self) {
        *self.lock() = State::default();
        self.changed();
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// A request in progress. Dropping it before `close` records that the client disconnected.
#[derive(Debug)]
pub(crate) struct Entry {
    record: Arc<Record>,
    pub(crate) number: u64,
    closed: bool,
}

impl Entry {
    pub(crate) fn sent(&self, chunks: u64) {
        self.record.update(self.number, |entry| entry.chunks_sent = chunks);
    }

    /// Records that the response waits, or that it continues.
    pub(crate) fn set_waiting(&self, is_waiting: bool) {
        let outcome = if is_waiting { Outcome::Waiting } else { Outcome::Open };
        self.record.update(self.number, |entry| entry.outcome = outcome);
    }

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
    fn the_record_contains_only_the_last_requests() {
        let record = Arc::new(Record::new(2));
        for n in 1..=3 {
            record.record("/v1/models", Value::from(n), Vec::new()).close(Outcome::Finished);
        }
        let numbers: Vec<_> = record.all().into_iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, [2, 3]);
    }

    #[test]
    fn dropping_an_entry_records_a_disconnected_client() {
        let record = Arc::new(Record::new(2));
        drop(record.record("/v1/chat/completions", Value::Null, Vec::new()));
        assert_eq!(record.all()[0].outcome, Outcome::ClosedByClient);
    }
}
