//! What is left to do after an organization, a document or an extraction was deleted, when the rows of requests and the threads of
//! an organization have had their time, and when bytes are left that no document refers to.
//!
//! Deleting a document is one write, its tombstone. Its bytes go at the next sweep, and once more after a day: bytes know
//! no condition, and an upload that was still under way may have put them there again. Its threads stay readable for that
//! day; they are only marked here, and the conversations' own sweep removes them, because a turn may be open.
//!
//! An upload stores its bytes before it writes its document, so that a process that dies in between leaves bytes alone.
//! All blobs are listed now and then, and those older than a day without a document are removed: no upload takes that
//! long. The same request sent again after a day writes them anew; while that is under way in this process they stay.
//! (Another process that finishes the very same upload between the look at the document and the removal loses its bytes:
//! milliseconds, a day after the process that began it died.)

mod organizations;
mod orphans;
mod retention;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use folio_resources::{Document, Extraction};
use folio_storage::{SharedTurnStore, Stores};
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{DocumentId, Environment, OrgId, Result, Timestamp, limits};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use self::organizations::Organizations;
use self::orphans::Orphans;
use self::retention::Retention;
use crate::active_uploads::ActiveUploads;

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
    /// Seconds between two looks at all blobs for those that no document refers to; the first is at the start. A look
    /// lists every blob and reads the document of each that is older than a day.
    pub orphan_interval_seconds: u64,
    /// Seconds between two looks for threads that organizations no longer keep; the first is at the start. A look reads all
    /// organizations, and of those that set a time the threads that were begun before it.
    pub retention_interval_seconds: u64,
}

impl Default for CleanupOptions {
    fn default() -> Self {
        Self {
            interval_seconds: 60,
            batch: 10_000,
            orphan_interval_seconds: 6 * 60 * 60,
            retention_interval_seconds: 60 * 60,
        }
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
        problems.number("orphan_interval_seconds", self.orphan_interval_seconds, 1, 30 * 86_400);
        problems.number("retention_interval_seconds", self.retention_interval_seconds, 1, 86_400);
        problems.verdict()
    }
}

/// Whether it is this process that sweeps now. Of several that share their stores one is enough; two do no harm.
pub type Mine = Arc<dyn Fn() -> bool + Send + Sync>;

/// For a process that has its stores to itself.
pub fn always_mine() -> Mine {
    Arc::new(|| true)
}

/// Asks for a sweep. Cheap to clone. The default is that of a process that does not sweep: nobody hears it, and another
/// one sweeps at its next interval.
#[derive(Debug, Clone, Default)]
pub struct CleanupHandle {
    wake: Arc<Notify>,
}

impl CleanupHandle {
    /// A document or an organization was deleted: sweeps soon, not only at the next interval.
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
    /// Starts sweeping, whenever that is `mine`. It skips the bytes of `active_uploads`.
    pub fn start(
        stores: Stores,
        turns: Arc<dyn SharedTurnStore>,
        environment: Arc<dyn Environment>,
        active_uploads: ActiveUploads,
        options: CleanupOptions,
        mine: Mine,
    ) -> (Self, CleanupHandle) {
        let (stop, wake) = (CancellationToken::new(), Arc::new(Notify::new()));
        let handle = CleanupHandle { wake: Arc::clone(&wake) };
        let sweep = Sweep {
            orphans: Orphans {
                stores: stores.clone(),
                active_uploads,
                due: Due::every(options.orphan_interval_seconds),
            },
            organizations: Organizations::new(stores.clone(), turns),
            retention: Retention { stores: stores.clone(), due: Due::every(options.retention_interval_seconds) },
            stores,
            batch: options.batch.max(1),
            begun: HashSet::new(),
        };
        let interval = Duration::from_secs(options.interval_seconds.max(1));
        let task = tokio::spawn(run(sweep, environment, Pace { interval, wake, mine }, stop.clone()));
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

/// When a sweep begins.
struct Pace {
    interval: Duration,
    wake: Arc<Notify>,
    mine: Mine,
}

async fn run(mut sweep: Sweep, environment: Arc<dyn Environment>, pace: Pace, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(pace.interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
            () = pace.wake.notified() => {}
        }
        if !(pace.mine)() {
            continue;
        }
        if let Err(error) = sweep.run(environment.now()).await {
            tracing::warn!(%error, "a sweep was broken off; the next one goes on");
        }
        // These may take long, and what they left is found again.
        let now = environment.now();
        tokio::select! {
            () = stop.cancelled() => return,
            () = sweep.retention.look(now) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = sweep.orphans.look(now) => {}
        }
    }
}

/// What is done at some of the sweeps: at the first, and again after a while.
struct Due {
    every: Duration,
    /// When it is due again; none: at once.
    next: Option<Timestamp>,
}

impl Due {
    fn every(seconds: u64) -> Self {
        Self { every: Duration::from_secs(seconds), next: None }
    }

    /// Whether it is due; then it is again after that while.
    fn comes(&mut self, now: Timestamp) -> bool {
        if self.next.is_some_and(|next| now < next) {
            return false;
        }
        self.next = now.checked_add(self.every).ok();
        true
    }
}

/// What sweeps remember of each other. Only saves work: all of it may be done again.
struct Sweep {
    stores: Stores,
    batch: usize,
    /// Documents whose first round is done.
    begun: HashSet<DocumentId>,
    organizations: Organizations,
    orphans: Orphans,
    retention: Retention,
}

impl Sweep {
    async fn run(&mut self, now: Timestamp) -> Result<()> {
        let deleted = self.stores.of::<Document>().deleted(self.batch).await?;
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
                self.stores.of::<Document>().forget_deleted(&org, &id).await?;
            }
        }
        self.requests(now).await?;
        self.extractions(now).await?;
        self.organizations.sweep(now).await
    }

    /// Extractions that were deleted by themselves: a repetition of what made them finds their data for a day.
    async fn extractions(&self, now: Timestamp) -> Result<()> {
        let before = now.checked_sub(limits::DAY).unwrap_or(Timestamp::MIN);
        while self.stores.of::<Extraction>().scrub_deleted(before, ROWS_AT_ONCE).await? == ROWS_AT_ONCE {}
        Ok(())
    }

    /// A request can be repeated for [`REQUEST_HOURS`]; then its id is free.
    async fn requests(&self, now: Timestamp) -> Result<()> {
        let before = now.checked_sub(jiff::SignedDuration::from_hours(REQUEST_HOURS)).unwrap_or(Timestamp::MIN);
        while self.stores.ops.forget_requests(before, ROWS_AT_ONCE).await? == ROWS_AT_ONCE {}
        Ok(())
    }

    async fn document(&self, org: &OrgId, id: &DocumentId, deleted: Timestamp) -> Result<()> {
        self.stores.blobs.delete(org, id).await?;
        let expires = deleted.checked_add(limits::DAY).unwrap_or(deleted);
        self.stores.threads.expire_with_document(org, id, expires).await
    }
}
