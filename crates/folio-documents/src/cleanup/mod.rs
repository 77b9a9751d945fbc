//! Clean-up of deleted organizations, documents, prompts and schemas, expired rows of requests, op rows and threads, and
//! orphaned bytes of uploads.
//!
//! Deleting a document writes its tombstone. The next sweep removes its bytes, and so does a sweep one day later,
//! because an upload in progress may have written bytes since. The threads of the document stay readable for that
//! day: the sweep only sets their expiry. The sweep of the conversations removes them, because a turn may be open.
//!
//! An upload stores its bytes before it writes its document, so a crash in between leaves orphaned bytes. A periodic
//! search lists all blobs and removes those that no document names, that no live thread contains, and that are older than a day. A document is written
//! seconds after its blob, and no other upload writes the same blob.

mod op_data;
mod organizations;
mod orphans;
mod retention;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use folio_resources::{Document, Prompt, Resource, Schema};
use folio_storage::{SharedTurnStore, Stores};
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{DocumentId, Environment, OrgId, Result, Timestamp, limits};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::organizations::Organizations;
use self::orphans::Orphans;
use self::retention::Retention;

/// Hours for which the op row of a request outside turns is kept.
const REQUEST_HOURS: i64 = 48;
/// Maximum number of rows that one transaction removes.
const ROWS_AT_ONCE: usize = 1_000;

folio_types::settings! {
    /// The settings section `cleanup`.
    pub struct CleanupOptions {
        /// Seconds between two sweeps.
        pub interval_seconds: u64 = 60,
        /// Maximum number of deleted documents, prompts and schemas, each, per sweep.
        pub batch: usize = 10_000,
        /// Seconds between two searches for orphaned bytes, the first at the start. A search lists every blob and reads
        /// the document of each blob older than a day.
        pub orphan_interval_seconds: u64 = 6 * 60 * 60,
        /// Seconds between two searches for expired threads of organizations with a retention, the first at the start.
        /// A search reads all organizations, and threads that started before the retention period.
        pub retention_interval_seconds: u64 = 60 * 60,
    }
}

impl CleanupOptions {
    /// Returns every invalid setting.
    pub fn check(&self) -> Result<(), InvalidSettings> {
        let mut problems = Problems::of("cleanup");
        problems.number("interval_seconds", self.interval_seconds, 1, 86_400);
        problems.number("batch", self.batch, 1, 1_000_000);
        problems.number("orphan_interval_seconds", self.orphan_interval_seconds, 1, 30 * 86_400);
        problems.number("retention_interval_seconds", self.retention_interval_seconds, 1, 86_400);
        problems.into_result()
    }
}

/// Returns true if this process is responsible for sweeps. One of the processes that share stores is sufficient;
/// concurrent sweeps are harmless.
pub type IsSweeper = Arc<dyn Fn() -> bool + Send + Sync>;

/// Returns the predicate of a process that does not share its stores.
pub fn always_sweeper() -> IsSweeper {
    Arc::new(|| true)
}

/// Requests sweeps. Cheap to clone. The default handle has no effect; another process sweeps at its next interval.
#[derive(Debug, Clone, Default)]
pub struct CleanupHandle {
    wake: Arc<Notify>,
}

impl CleanupHandle {
    /// Requests a sweep now instead of after the interval. For a caller that deleted a resource.
    pub fn sweep_soon(&self) {
        self.wake.notify_one();
    }
}

/// Owns the task that sweeps. Dropping the cleaner aborts a running sweep; the next sweep repeats the work.
#[derive(Debug)]
pub struct Cleaner {
    stop: CancellationToken,
    task: AbortOnDropHandle<()>,
}

impl Cleaner {
    /// Starts the task, which sweeps while `is_sweeper` returns true.
    pub fn start(
        stores: Stores,
        turns: Arc<dyn SharedTurnStore>,
        environment: Arc<dyn Environment>,
        options: CleanupOptions,
        is_sweeper: IsSweeper,
    ) -> (Self, CleanupHandle) {
        let (stop, wake) = (CancellationToken::new(), Arc::new(Notify::new()));
        let handle = CleanupHandle { wake: Arc::clone(&wake) };
        let sweep = Sweep {
            orphans: Orphans { stores: stores.clone(), schedule: Schedule::every(options.orphan_interval_seconds) },
            organizations: Organizations::new(stores.clone(), turns),
            retention: Retention {
                stores: stores.clone(),
                schedule: Schedule::every(options.retention_interval_seconds),
            },
            stores,
            batch: options.batch.max(1),
            swept: HashSet::new(),
        };
        let interval = Duration::from_secs(options.interval_seconds.max(1));
        let task = tokio::spawn(run(sweep, environment, Triggers { interval, wake, is_sweeper }, stop.clone()));
        (Self { stop, task: AbortOnDropHandle::new(task) }, handle)
    }

    /// Stops the task. A running sweep may end within the limit; then it is aborted.
    pub async fn stop(self, limit: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(limit, self.task).await.is_err() {
            tracing::info!("a sweep was aborted; the next one repeats its work");
        }
    }
}

struct Triggers {
    interval: Duration,
    wake: Arc<Notify>,
    is_sweeper: IsSweeper,
}

async fn run(mut sweep: Sweep, environment: Arc<dyn Environment>, triggers: Triggers, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(triggers.interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
            () = triggers.wake.notified() => {}
        }
        // A process with a wrong clock would delete what is not due.
        if !(triggers.is_sweeper)() || environment.check_clock().is_err() {
            continue;
        }
        if let Err(error) = sweep.run(environment.now()).await {
            tracing::warn!(%error, "a sweep failed; the next one continues it");
        }
        // These searches may take long and are cancelled at a stop. The next search repeats them.
        let now = environment.now();
        let searches = async {
            sweep.retention.run(now).await;
            sweep.orphans.run(now).await;
        };
        if stop.run_until_cancelled(searches).await.is_none() {
            return;
        }
    }
}

/// The interval of a search. The first run is due immediately.
struct Schedule {
    every: Duration,
    /// Time of the next run. None: immediately.
    next: Option<Timestamp>,
}

impl Schedule {
    fn every(seconds: u64) -> Self {
        Self { every: Duration::from_secs(seconds), next: None }
    }

    /// Returns true if a run is due, and schedules the next one.
    fn is_due(&mut self, now: Timestamp) -> bool {
        if self.next.is_some_and(|next| now < next) {
            return false;
        }
        self.next = now.checked_add(self.every).ok();
        true
    }
}

/// State between sweeps. Losing it only repeats idempotent work.
struct Sweep {
    stores: Stores,
    batch: usize,
    /// Deleted documents whose first sweep is complete.
    swept: HashSet<DocumentId>,
    organizations: Organizations,
    orphans: Orphans,
    retention: Retention,
}

impl Sweep {
    async fn run(&mut self, now: Timestamp) -> Result<()> {
        let deleted = self.stores.of::<Document>().deleted(self.batch).await?;
        if deleted.len() == self.batch {
            tracing::warn!(
                documents = deleted.len(),
                "the sweep reached its maximum number of deleted documents; the next sweep continues"
            );
        }
        let listed: HashSet<DocumentId> = deleted.iter().map(|(_, id, _)| id.clone()).collect();
        self.swept.retain(|id| listed.contains(id));
        for (org, id, at) in deleted {
            let is_final = at.checked_add(limits::DAY).is_ok_and(|end| now >= end);
            if is_final || !self.swept.contains(&id) {
                self.document(&org, &id, at).await?;
                self.stores.of::<Document>().clean_deleted(&org, &id, is_final).await?;
                self.swept.insert(id.clone());
            }
        }
        self.revisions::<Prompt>().await?;
        self.revisions::<Schema>().await?;
        self.requests(now).await?;
        op_data::sweep(&self.stores, now).await?;
        self.organizations.sweep(now).await
    }

    /// Removes the revisions of deleted resources of a kind.
    async fn revisions<R: Resource>(&self) -> Result<()> {
        let store = self.stores.of::<R>();
        for (org, id, _) in store.deleted(self.batch).await? {
            store.clean_deleted(&org, &id, true).await?;
        }
        Ok(())
    }

    /// Removes op rows of requests older than [`REQUEST_HOURS`]. Their request ids may be reused.
    async fn requests(&self, now: Timestamp) -> Result<()> {
        let before = now.checked_sub(jiff::SignedDuration::from_hours(REQUEST_HOURS)).unwrap_or(Timestamp::MIN);
        while self.stores.ops.forget_requests(before, ROWS_AT_ONCE).await? == ROWS_AT_ONCE {}
        Ok(())
    }

    async fn document(&self, org: &OrgId, id: &DocumentId, deleted: Timestamp) -> Result<()> {
        self.stores.blobs.delete_document(org, id).await?;
        self.stores.vector_cache().remove_document(org, id).await?;
        self.stores.image_annotations().remove_document(org, id).await?;
        let expires = deleted.checked_add(limits::DAY).unwrap_or(deleted);
        self.stores.threads.expire_referrers(org, id.as_str(), expires).await
    }
}
