//! The events of turns, for those who watch from elsewhere.

use async_trait::async_trait;
use folio_history::event::Event;
use folio_types::{Incarnation, OrgId, Result, TurnId};

/// What an append became.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventsAppended {
    /// They are there, or were already.
    Done,
    /// The store lacks what came before (it is empty, or another owner's): begin with a snapshot.
    NeedsSnapshot,
    /// A later owner has written: who appends reads the thread's header.
    Replaced {
        /// Its epoch.
        epoch: u64,
    },
}

/// What a read gave.
#[derive(Debug, Clone, PartialEq)]
pub enum EventsRead {
    /// Events from the number that was asked for on, or a snapshot that stands for them and what follows. Empty: nothing
    /// yet.
    Events(Vec<Event>),
    /// They are not there (any more): the journal has the state.
    Gone,
}

/// The newest events of each turn, bounded.
#[async_trait]
pub trait TurnEventStore: Send + Sync {
    /// Appends events of one turn, in order and without a gap, under the owner's epoch. Those that are there already are
    /// dropped, so that it may be sent again. The first event of what is empty or an older owner's is a snapshot, or has
    /// number 1; a snapshot takes the place of everything before it.
    async fn append(
        &self,
        org: &OrgId,
        turn: &TurnId,
        owner: &Incarnation,
        epoch: u64,
        events: &[Event],
    ) -> Result<EventsAppended>;

    /// At most `limit` events from this number on. It does not wait.
    async fn read(&self, org: &OrgId, turn: &TurnId, from: u64, limit: usize) -> Result<EventsRead>;
}
