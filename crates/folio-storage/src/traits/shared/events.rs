//! The store of the newest events of turns, from which processes other than the owner serve watchers.

use async_trait::async_trait;
use folio_history::event::Event;
use folio_types::{Incarnation, OrgId, Result, TurnId};

/// The result of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsAppended {
    Done,
    /// Nothing was appended, because the store lacks the preceding events: it has no events of the turn, or those of
    /// another owner. The next append must begin with a snapshot.
    NeedsSnapshot,
    /// Nothing was appended, because an owner with this later epoch has written. The caller must read the thread's header.
    Fenced {
        epoch: u64,
    },
}

/// The result of a read.
#[derive(Debug, Clone, PartialEq)]
pub enum EventsRead {
    /// Events from the requested number on, or a snapshot that replaces them and the events that follow it. Empty: no
    /// such event was appended yet.
    Events(Vec<Event>),
    /// The events are not stored; the journal contains the state.
    Expired,
}

/// The newest events of each turn, bounded in number and bytes by [`crate::SharedOptions`].
#[async_trait]
pub trait TurnEventStore: Send + Sync {
    /// Appends events of one turn, in order and without a gap, under the owner's epoch. Idempotent: events that are
    /// already stored are dropped. If the store is empty or contains events of an older owner, the first event must be
    /// a snapshot or have number 1. A snapshot replaces all events before it.
    async fn append(
        &self,
        org: &OrgId,
        turn: &TurnId,
        owner: &Incarnation,
        epoch: u64,
        events: &[Event],
    ) -> Result<EventsAppended>;

    /// Returns at most `limit` events from number `from` on. Does not wait for new events.
    async fn read(&self, org: &OrgId, turn: &TurnId, from: u64, limit: usize) -> Result<EventsRead>;
}
