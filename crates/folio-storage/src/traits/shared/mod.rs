//! Data that the nodes share for speed. The data may be lost at any time; no invariant depends on it.
//!
//! Two adapters exist: Redis, and memory for the single-process mode. Times are compared by the clock of the store. A
//! change that timed out may be applied later. A late change is harmless, because each change carries an incarnation,
//! an (epoch, version) or an event number. Every error is `STORE_UNAVAILABLE` and leaves the outcome unknown; every
//! change may be repeated.

mod events;
mod jobs;
mod nodes;
mod rates;
mod slots;
mod turns;

use std::sync::Arc;
use std::time::Duration;

pub use events::{EventsAppended, EventsRead, TurnEventStore};
pub use jobs::{ClaimedJob, Job, JobStore, queue_full};
pub use nodes::{ClusterNode, HeartbeatStatus, MembershipSnapshot, NodeRecord, NodeStore};
pub use rates::{EventWindow, Rate, RateDecision, RateStore, WindowLimit};
pub use slots::{SLOTS_SYNC_MAX, SlotStore};
pub use turns::{REPUBLISH_INTERVAL, SharedTurn, SharedTurnStore, TurnCursor};

use super::StoreHealth;

folio_types::with_defaults! {
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SharedOptions {
        /// Time without a heartbeat after which a node is dead (5 s). A node sends more than three heartbeats within
        /// it.
        pub dead_after: Duration = Duration::from_secs(5),
        /// Time for which a dead node remains listed (10 min).
        pub dead_listed_for: Duration = Duration::from_secs(600),
        /// Time to live of a turn's events after the last one (10 min).
        pub events_ttl: Duration = Duration::from_secs(600),
        /// Maximum number of events of one turn (1,000); the oldest are removed.
        pub events_max: usize = 1_000,
        /// Maximum size of the events of one turn, in bytes (1 MiB); the oldest are removed.
        pub events_bytes_max: usize = 1024 * 1024,
        /// Time to live of the state of an ended turn (10 min). The state of an open turn expires this long after the
        /// turn's expiry, or, if the turn has no expiry, this long after one hour, unless the state is published again.
        pub idle_turn_ttl: Duration = Duration::from_secs(600),
        /// Maximum number of waiting jobs in one queue (10,000).
        pub jobs_max: usize = 10_000,
        /// Time after which a slot that is not renewed becomes free, because its process died (15 s).
        pub slot_lease: Duration = Duration::from_secs(15),
    }
}

/// All shared stores. Cheap to clone.
#[derive(Clone)]
pub struct SharedStores {
    pub nodes: Arc<dyn NodeStore>,
    pub turns: Arc<dyn SharedTurnStore>,
    pub events: Arc<dyn TurnEventStore>,
    pub jobs: Arc<dyn JobStore>,
    pub rates: Arc<dyn RateStore>,
    pub slots: Arc<dyn SlotStore>,
    pub health: Arc<dyn StoreHealth>,
}

impl std::fmt::Debug for SharedStores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedStores")
    }
}
