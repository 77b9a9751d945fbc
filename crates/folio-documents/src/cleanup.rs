//! What is left to do after a document or an extraction was deleted, and when the rows of requests have had their time.
//!
//! Deleting a document is one write, its tombstone. Its bytes go at the next sweep, and once more after a day: bytes know
//! no condition, and an upload that was still under way may have put them there again. Its threads stay readable for that
//! day; they are only marked here, and the conversations' own sweep removes them, because a turn may be open.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use folio_storage::Stores;
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{DocumentId, Environment, OrgId, Result, Timestamp, limits};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Hours for which a request outside turns is known whatever target it names.
const REQUEST_HOURS: i64 = 48;
/// Rows that are removed in one transaction.
const ROWS_AT_ONCE: usize = 1_000;

/// Settings of the clean-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CleanupOptions {
    /// Seconds between two sweeps.
    pub interval_seconds: u64,
    /// Documents of one sweep at most.
    pub batch: usize,
}

impl Default for CleanupOptions {
    fn default() -> Self {
        Self { interval_seconds: 60, batch: 10_000 }
    }
}

impl CleanupOptions {
    /// Checks every setting.
    ///
    /// # Errors
    /// All that is out of bounds, with the bounds.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("cleanup");
        problems.number("interval_seconds", self.interval_seconds, 1, 86_400);
        problems.number("batch", self.batch, 1, 1_000_000);
        problems.verdict()
    }
}

/// Asks for a sweep. Cheap to clone.
#[derive(Debug, Clone)]
pub struct CleanupHandle {
    wake: Arc<Notify>,
}

impl CleanupHandle {
    /// A document was deleted: sweeps soon, not only at the next interval.
    pub fn sweep_soon(&self) {
        self.wake.notify_one();
    }
}

/// The component: owns the task that sweeps.
#[derive(Debug)]
pub struct Cleaner {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Cleaner {
    /// Starts sweeping.
    pub fn start(stores: Stores, environment: Arc<dyn Environment>, options: CleanupOptions) -> (Self, CleanupHandle) {
        let (stop, wake) = (CancellationToken::new(), Arc::new(Notify::new()));
        let handle = CleanupHandle { wake: Arc::clone(&wake) };
        let task = tokio::spawn(run(stores, environment, options, wake, stop.clone()));
        (Self { stop, task }, handle)
    }

    /// Ends after the sweep that is under way.
    pub async fn stop(mut self) {
        self.stop.cancel();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    stores: Stores,
    environment: Arc<dyn Environment>,
    options: CleanupOptions,
    wake: Arc<Notify>,
    stop: CancellationToken,
) {
    let mut sweep = Sweep { stores, batch: options.batch.max(1), begun: HashSet::new() };
    let mut ticks = tokio::time::interval(Duration::from_secs(options.interval_seconds.max(1)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
            () = wake.notified() => {}
        }
        if let Err(error) = sweep.run(environment.now()).await {
            tracing::warn!(%error, "a sweep was broken off; the next one goes on");
        }
    }
}

/// What sweeps remember of each other. Only saves work: all of it may be done again.
struct Sweep {
    stores: Stores,
    batch: usize,
    /// Documents whose first round is done.
    begun: HashSet<DocumentId>,
}

impl Sweep {
    async fn run(&mut self, now: Timestamp) -> Result<()> {
        let deleted = self.stores.documents.deleted(self.batch).await?;
        if deleted.len() == self.batch {
            tracing::warn!(documents = deleted.len(), "more documents were deleted than one sweep takes");
        }
        let listed: HashSet<DocumentId> = deleted.iter().map(|(_, id, _)| id.clone()).collect();
        self.begun.retain(|id| listed.contains(id));
        for (org, id, at) in deleted {
            let last = at.checked_add(limits::DAY).is_ok_and(|end| now >= end);
            if last || !self.begun.contains(&id) {
                self.document(&org, &id, at).await?;
                self.begun.insert(id.clone());
            }
            if last {
                self.stores.documents.forget_deleted(&org, &id).await?;
            }
        }
        self.requests(now).await?;
        self.extractions(now).await
    }

    /// Extractions that were deleted by themselves: a repetition of what made them finds their data for a day.
    async fn extractions(&self, now: Timestamp) -> Result<()> {
        let before = now.checked_sub(limits::DAY).unwrap_or(Timestamp::MIN);
        while self.stores.extractions.forget_deleted(before, ROWS_AT_ONCE).await? == ROWS_AT_ONCE {}
        Ok(())
    }

    /// A request can be repeated for [`REQUEST_HOURS`]; then its id is free.
    async fn requests(&self, now: Timestamp) -> Result<()> {
        let before = now.checked_sub(jiff::SignedDuration::from_hours(REQUEST_HOURS)).unwrap_or(Timestamp::MIN);
        while self.stores.ops.forget_asked(before, ROWS_AT_ONCE).await? == ROWS_AT_ONCE {}
        Ok(())
    }

    async fn document(&self, org: &OrgId, id: &DocumentId, deleted: Timestamp) -> Result<()> {
        self.stores.blobs.delete(org, id).await?;
        let expires = deleted.checked_add(limits::DAY).unwrap_or(deleted);
        self.stores.threads.expire_with_document(org, id, expires).await
    }
}
