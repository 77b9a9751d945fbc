//! What the nodes share to be fast: it may be lost at any time, and nothing that an invariant needs is only here.
//!
//! Two adapters: Redis, and memory for the one-process form. Times are judged by the clock of the store. A change that
//! timed out may still be applied later; so each carries what makes it harmless then: an incarnation, an (epoch, version),
//! a number. An error is `STORE_UNAVAILABLE` and leaves the outcome unknown; every change may be sent again.

mod events;
mod jobs;
mod nodes;
mod rates;
mod slots;
mod turns;

use std::sync::Arc;
use std::time::Duration;

pub use events::{EventsAppended, EventsRead, TurnEventStore};
pub use jobs::{Job, JobStore, TakenJob};
pub use nodes::{Beat, Member, NodeRecord, NodeStore, Nodes};
pub use rates::{Rate, RateStore, Taken};
pub use slots::{SLOTS_TOLD_MAX, SlotStore};
pub use turns::{SharedTurn, SharedTurnStore, TurnCursor};

use super::StoreHealth;

/// The times and bounds of what is shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedOptions {
    /// A node without a heartbeat for so long is gone (5 s). It beats more than three times within it.
    pub gone_after: Duration,
    /// How long a node that left or is gone is still shown (10 min).
    pub gone_shown: Duration,
    /// How long the events of a turn stay after the last one (10 min).
    pub events_stay: Duration,
    /// Events of one turn at most (1,000); the oldest go.
    pub events_max: usize,
    /// Bytes of the events of one turn at most (1 MiB); the oldest go.
    pub events_bytes_max: usize,
    /// How long the state of a turn stays that neither runs nor waits any more (10 min); one that does stays until its
    /// expiry and this beyond, or an hour where it has none, unless it is published again.
    pub ended_stays: Duration,
    /// Jobs that wait in one queue at most (10,000).
    pub jobs_max: usize,
    /// How long a slot is held of which nothing is told any more, because its process died (15 s).
    pub slot_lease: Duration,
}

impl Default for SharedOptions {
    fn default() -> Self {
        Self {
            gone_after: Duration::from_secs(5),
            gone_shown: Duration::from_secs(600),
            events_stay: Duration::from_secs(600),
            events_max: 1_000,
            events_bytes_max: 1024 * 1024,
            ended_stays: Duration::from_secs(600),
            jobs_max: 10_000,
            slot_lease: Duration::from_secs(15),
        }
    }
}

/// Everything that is shared. Cheap to clone.
#[derive(Clone)]
pub struct SharedStores {
    /// Nodes and their heartbeats.
    pub nodes: Arc<dyn NodeStore>,
    /// The states of open turns.
    pub turns: Arc<dyn SharedTurnStore>,
    /// The events of turns.
    pub events: Arc<dyn TurnEventStore>,
    /// Queues of jobs.
    pub jobs: Arc<dyn JobStore>,
    /// Rates.
    pub rates: Arc<dyn RateStore>,
    /// Slots.
    pub slots: Arc<dyn SlotStore>,
    /// Whether it answers.
    pub health: Arc<dyn StoreHealth>,
}

impl std::fmt::Debug for SharedStores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedStores")
    }
}
