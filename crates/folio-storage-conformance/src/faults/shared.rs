//! Faults of the shared stores.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use folio_history::event::Event;
use folio_storage::{
    ClaimedJob, EventsAppended, EventsRead, HeartbeatStatus, Job, JobStore, MembershipSnapshot, NodeRecord, NodeStore,
    Rate, RateDecision, RateStore, SharedStores, SharedTurn, SharedTurnStore, SlotStore, TurnCursor, TurnEventStore,
    WindowLimit,
};
use folio_types::{Error, Incarnation, OrgId, Reason, Result, TurnId, UserId};

use crate::layer::{EventLayer, JobLayer, Layered, NodeLayer, RateLayer, SharedTurnLayer, SlotLayer};

/// Declares the faults: name, store, suite that catches it.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident, $store:ident, $suite:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum SharedFault {
            $($(#[$doc])* $name,)*
        }

        impl SharedFault {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The suite that must catch the fault.
            pub fn caught_by(self) -> &'static str {
                match self { $(Self::$name => $suite,)* }
            }

            #[must_use]
            pub fn decorate(self, stores: &SharedStores) -> SharedStores {
                match self {
                    $(Self::$name => SharedStores {
                        $store: Layered::over($name::default(), &stores.$store),
                        ..stores.clone()
                    },)*
                }
            }
        }
    };
}

faults! {
    /// The append of a replaced owner is answered as done.
    ReplacedOwnerAppends, events, "events";
    /// The newest event is read twice.
    EventTwice, events, "events";
    /// A second worker claims a job.
    JobClaimedTwice, jobs, "jobs";
    /// A job with the key of a waiting one is added.
    JobAddedTwice, jobs, "jobs";
    /// All jobs belong to one group.
    JobGroupsIgnored, jobs, "jobs";
    /// An added job wakes no worker.
    PushNotNotified, jobs, "jobs";
    /// The heartbeat of a dead node is accepted.
    DeadNodeReturns, nodes, "nodes";
    /// A silent node counts as live.
    SilenceIgnored, nodes, "nodes";
    /// An empty bucket allows a request.
    BucketNeverEmpty, rates, "rates";
    /// A full window counts a further event.
    WindowNeverFull, rates, "rates";
    /// A removed event still counts.
    WindowKeepsEvents, rates, "rates";
    /// A slot is granted beyond the bound.
    SlotBoundIgnored, slots, "slots";
    /// The lease of a slot does not expire.
    LeaseNeverEnds, slots, "slots";
    LeaseNotRenewed, slots, "slots";
    /// An older state is accepted after a newer one.
    OlderStateAccepted, turns, "turns";
    /// Waiting turns are not listed.
    WaitingTurnMissing, turns, "turns";
}

/// A store of rates that answers no call.
#[derive(Debug)]
pub struct UnavailableRates;

#[async_trait]
impl RateStore for UnavailableRates {
    async fn take(&self, _: &OrgId, _: &str, _: Rate, _: u32) -> Result<RateDecision> {
        Err(unavailable())
    }

    async fn count(&self, _: &OrgId, _: &str, _: WindowLimit) -> Result<RateDecision> {
        Err(unavailable())
    }

    async fn uncount(&self, _: &OrgId, _: &str) -> Result<()> {
        Err(unavailable())
    }
}

fn unavailable() -> Error {
    Error::unavailable(Reason::StoreUnavailable, "unavailable")
}

#[derive(Default)]
struct ReplacedOwnerAppends;

#[async_trait]
impl EventLayer for ReplacedOwnerAppends {
    async fn append(
        &self,
        below: &dyn TurnEventStore,
        org: &OrgId,
        turn: &TurnId,
        owner: &Incarnation,
        epoch: u64,
        events: &[Event],
    ) -> Result<EventsAppended> {
        match below.append(org, turn, owner, epoch, events).await? {
            EventsAppended::Fenced { .. } => Ok(EventsAppended::Done),
            appended => Ok(appended),
        }
    }
}

#[derive(Default)]
struct EventTwice;

#[async_trait]
impl EventLayer for EventTwice {
    async fn read(
        &self,
        below: &dyn TurnEventStore,
        org: &OrgId,
        turn: &TurnId,
        from: u64,
        limit: usize,
    ) -> Result<EventsRead> {
        let mut read = below.read(org, turn, from, limit).await?;
        if let EventsRead::Events(events) = &mut read {
            let newest = events.last().cloned();
            events.extend(newest);
        }
        Ok(read)
    }
}

#[derive(Default)]
struct JobClaimedTwice(Mutex<Vec<ClaimedJob>>);

#[async_trait]
impl JobLayer for JobClaimedTwice {
    async fn claim(
        &self,
        below: &dyn JobStore,
        queue: &str,
        worker: &Incarnation,
        limit: usize,
        abandoned_after: Duration,
    ) -> Result<Vec<ClaimedJob>> {
        let claimed = below.claim(queue, worker, limit, abandoned_after).await?;
        let before = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), claimed.clone());
        Ok(before.into_iter().chain(claimed).collect())
    }
}

#[derive(Default)]
struct JobAddedTwice;

#[async_trait]
impl JobLayer for JobAddedTwice {
    async fn push(&self, below: &dyn JobStore, queue: &str, job: &Job) -> Result<bool> {
        if below.push(queue, job).await? {
            return Ok(true);
        }
        below.push(queue, &Job { key: format!("{} again", job.key), ..job.clone() }).await
    }
}

#[derive(Default)]
struct JobGroupsIgnored;

#[async_trait]
impl JobLayer for JobGroupsIgnored {
    async fn push(&self, below: &dyn JobStore, queue: &str, job: &Job) -> Result<bool> {
        below.push(queue, &Job { group: String::new(), ..job.clone() }).await
    }
}

#[derive(Default)]
struct PushNotNotified;

#[async_trait]
impl JobLayer for PushNotNotified {
    async fn wait_for_push(&self, _below: &dyn JobStore, _queue: &str, limit: Duration) -> Result<bool> {
        tokio::time::sleep(limit).await;
        Ok(false)
    }
}

#[derive(Default)]
struct DeadNodeReturns;

#[async_trait]
impl NodeLayer for DeadNodeReturns {
    async fn heartbeat(&self, below: &dyn NodeStore, node: &NodeRecord, joins: bool) -> Result<HeartbeatStatus> {
        below.heartbeat(node, joins).await.map(|_| HeartbeatStatus::Live)
    }
}

#[derive(Default)]
struct SilenceIgnored;

#[async_trait]
impl NodeLayer for SilenceIgnored {
    async fn nodes(&self, below: &dyn NodeStore) -> Result<MembershipSnapshot> {
        let mut nodes = below.nodes().await?;
        for member in &mut nodes.members {
            member.is_dead = false;
        }
        Ok(nodes)
    }
}

#[derive(Default)]
struct BucketNeverEmpty;

#[async_trait]
impl RateLayer for BucketNeverEmpty {
    async fn take(
        &self,
        below: &dyn RateStore,
        org: &OrgId,
        bucket: &str,
        rate: Rate,
        cost: u32,
    ) -> Result<RateDecision> {
        below.take(org, bucket, rate, cost).await.map(|_| RateDecision::Allowed { remaining: 1 })
    }
}

#[derive(Default)]
struct WindowNeverFull;

#[async_trait]
impl RateLayer for WindowNeverFull {
    async fn count(
        &self,
        below: &dyn RateStore,
        org: &OrgId,
        window: &str,
        limit: WindowLimit,
    ) -> Result<RateDecision> {
        below.count(org, window, limit).await.map(|decision| match decision {
            RateDecision::Refused { .. } => RateDecision::Allowed { remaining: 0 },
            allowed => allowed,
        })
    }
}

#[derive(Default)]
struct WindowKeepsEvents;

#[async_trait]
impl RateLayer for WindowKeepsEvents {
    async fn uncount(&self, _below: &dyn RateStore, _org: &OrgId, _window: &str) -> Result<()> {
        Ok(())
    }
}

#[derive(Default)]
struct SlotBoundIgnored;

#[async_trait]
impl SlotLayer for SlotBoundIgnored {
    async fn take(&self, below: &dyn SlotStore, org: &OrgId, kind: &str, slot: &str, limit: u32) -> Result<bool> {
        below.take(org, kind, slot, limit).await.map(|_| true)
    }
}

#[derive(Default)]
struct LeaseNeverEnds(Mutex<HashMap<(OrgId, String), BTreeSet<String>>>);

#[async_trait]
impl SlotLayer for LeaseNeverEnds {
    async fn take(&self, below: &dyn SlotStore, org: &OrgId, kind: &str, slot: &str, limit: u32) -> Result<bool> {
        let key = (org.clone(), kind.to_owned());
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).map_or(0, BTreeSet::len);
        if taken >= limit as usize || !below.take(org, kind, slot, limit).await? {
            return Ok(false);
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().insert(slot.to_owned());
        Ok(true)
    }

    async fn sync(
        &self,
        below: &dyn SlotStore,
        org: &OrgId,
        kind: &str,
        renewed: &[String],
        freed: &[String],
    ) -> Result<()> {
        if let Some(slots) =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&(org.clone(), kind.to_owned()))
        {
            slots.retain(|slot| !freed.contains(slot));
        }
        below.sync(org, kind, renewed, freed).await
    }
}

#[derive(Default)]
struct LeaseNotRenewed;

#[async_trait]
impl SlotLayer for LeaseNotRenewed {
    async fn sync(
        &self,
        below: &dyn SlotStore,
        org: &OrgId,
        kind: &str,
        _renewed: &[String],
        freed: &[String],
    ) -> Result<()> {
        below.sync(org, kind, &[], freed).await
    }
}

#[derive(Default)]
struct OlderStateAccepted;

#[async_trait]
impl SharedTurnLayer for OlderStateAccepted {
    async fn publish(&self, below: &dyn SharedTurnStore, turn: &SharedTurn) -> Result<bool> {
        below.publish(turn).await.map(|_| true)
    }
}

#[derive(Default)]
struct WaitingTurnMissing;

#[async_trait]
impl SharedTurnLayer for WaitingTurnMissing {
    async fn waiting(
        &self,
        _below: &dyn SharedTurnStore,
        _org: &OrgId,
        _requester: Option<&UserId>,
        _after: Option<&TurnCursor>,
        _limit: usize,
    ) -> Result<Vec<SharedTurn>> {
        Ok(Vec::new())
    }
}
