//! The events of turns, for watchers on other nodes.

use async_trait::async_trait;
use folio_history::event::Event;
use folio_types::{Incarnation, OrgId, Result, TurnId};

/// The result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsAppended {
    /// The events are stored.
    Done,
    /// The store lacks the preceding events (it is empty, or holds those of another owner): the next append must begin
    /// with a snapshot.
    NeedsSnapshot,
    /// A later owner has written; the caller reads the thread's header.
    Replaced {
        /// The epoch of the later owner.
        epoch: u64,
    },
}

/// The result of a read.
#[derive(Debug, Clone, PartialEq)]
pub enum EventsRead {
    /// Events from the requested number on, or a snapshot that replaces them and the events that follow it. Empty: none
    /// was appended yet.
    Events(Vec<Event>),
    /// The events are not stored, or no longer: the journal has the state.
    Expired,
}

/// The newest events of each turn, bounded.
#[async_trait]
pub trait TurnEventStore: Send + Sync {
    /// Appends events of one turn, in order and without a gap, under the owner's epoch. Idempotent: events that are
    /// stored are dropped. If the store is empty or holds events of an older owner, the first event must be a snapshot
    /// or have number 1. A snapshot replaces all events before it.
    async fn append(
        &self,
        org: &OrgId,
        turn: &TurnId,
        owner: &Incarnation,
        epoch: u64,
        events: &[Event],
    ) -> Result<EventsAppended>;

    /// Returns at most `limit` events from this number on. Does not wait for new events.
    async fn read(&self, org: &OrgId, turn: &TurnId, from: u64, limit: usize) -> Result<EventsRead>;
}
