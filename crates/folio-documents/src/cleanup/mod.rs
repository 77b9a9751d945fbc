//! Clean-up of deleted organizations, documents, prompts, schemas and stacks, expired rows of requests, op rows and threads, and
//! orphaned bytes of uploads.
//!
//! Deleting a document writes its tombstone. The next sweep removes its bytes, and so does a sweep one day later,
//! because an upload in progress may have written bytes since. The threads of the document stay readable for that
//! day: the sweep only sets their expiry. The sweep of the conversations removes them, because a turn may be open.
//! [`deletions`] describes how a sweep finds the deletions.
//!
//! An upload stores its bytes before it writes its document, so a crash in between leaves orphaned bytes. A periodic
//! search lists all blobs and removes those that no document names, that no live thread contains, and that are older than
//! a day. A document is written seconds after its blob, and no other upload writes the same blob.

mod deletions;
mod op_data;
mod organizations;
mod orphans;
mod retention;

use std::sync::Arc;
use std::time::Duration;

use folio_resources::{Document, Kind, Prompt, Schema, Stack, StackRow, StackRowChange, StackRowFilter};
use folio_storage::value::DeletionRow;
use folio_storage::{ListSweep, SharedTurnStore, Stores};
use folio_types::op::{Expected, Write};
use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{DocumentId, Environment, Error, OrgId, Result, Timestamp, limits};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::deletions::Deletions;
use self::organizations::Organizations;
use self::orphans::Orphans;
use self::retention::Retention;

/// Hours for which the op row of a request outside turns is kept.
const REQUEST_HOURS: i64 = 48;
/// Maximum number of rows that one transaction removes.
const ROWS_AT_ONCE: usize = 1_000;
/// Number of rows of stacks of one read.
const ROWS_PER_READ: u32 = 100;

folio_types::settings! {
    /// The settings section `cleanup`.
    pub struct CleanupOptions {
        /// Seconds between two sweeps.
        pub interval_seconds: u64 = 60,
        /// Maximum number of deletions of documents, prompts, schemas and stacks, each, that a sweep reads, rounded up to a multiple
        /// of 100. If there are more, the next sweep follows at once.
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
        let removal = Removal { stores: stores.clone() };
        let deletions = |kind, retention| Deletions::new(removal.clone(), kind, retention, options.batch);
        let sweep = Sweep {
            deletions: [
                deletions(Kind::get::<Document>(), Some(limits::DAY)),
                deletions(Kind::get::<Prompt>(), None),
                deletions(Kind::get::<Schema>(), None),
                deletions(Kind::get::<Stack>(), Some(limits::DAY)),
            ],
            orphans: Orphans { stores: stores.clone(), schedule: Schedule::every(options.orphan_interval_seconds) },
            organizations: Organizations::new(stores.clone(), turns),
            retention: Retention {
                stores: stores.clone(),
                schedule: Schedule::every(options.retention_interval_seconds),
            },
            stores,
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
            biased;
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
            () = triggers.wake.notified() => {}
        }
        if !(triggers.is_sweeper)() {
            continue;
        }
        // A process with a wrong clock would delete what is not due.
        let Ok(now) = environment.checked_now() else { continue };
        match sweep.run(now).await {
            Ok(true) => triggers.wake.notify_one(),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "a sweep failed; the next one continues it"),
        }
        // These searches may take long and are cancelled at a stop. The next search repeats them.
        let Ok(now) = environment.checked_now() else { continue };
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
    /// The deletions of documents, prompts, schemas and stacks.
    deletions: [Deletions; 4],
    organizations: Organizations,
    orphans: Orphans,
    retention: Retention,
}

impl Sweep {
    /// Returns true if the next sweep is due at once, because this one has not read all deletions.
    async fn run(&mut self, now: Timestamp) -> Result<bool> {
        let mut has_more = false;
        for deletions in &mut self.deletions {
            has_more |= deletions.sweep(now).await?;
        }
        self.requests(now).await?;
        op_data::sweep(&self.stores, now).await?;
        self.organizations.sweep(now).await?;
        Ok(has_more)
    }

    /// Removes op rows of requests older than [`REQUEST_HOURS`]. Their request ids may be reused.
    async fn requests(&self, now: Timestamp) -> Result<()> {
        let before = now.checked_sub(jiff::SignedDuration::from_hours(REQUEST_HOURS)).unwrap_or(Timestamp::MIN);
        while self.stores.ops.forget_requests(before, ROWS_AT_ONCE).await? == ROWS_AT_ONCE {}
        Ok(())
    }
}

/// Removes the data that a deletion left.
#[derive(Clone)]
struct Removal {
    stores: Stores,
}

impl Removal {
    /// Removes the data of a confirmed deletion. Idempotent. `is_final`: see [`folio_storage::ResourceExecutor::clean_deleted`].
    async fn run(&self, kind: &'static Kind, row: &DeletionRow, is_final: bool) -> Result<()> {
        if kind == Kind::get::<Document>() {
            self.document(&row.org, &row.id.parse()?, row.at).await?;
        }
        self.stores.resources.clean_deleted(&row.org, kind, &row.id, is_final).await
    }

    async fn document(&self, org: &OrgId, id: &DocumentId, deleted: Timestamp) -> Result<()> {
        self.stores.blobs.delete_document(org, id).await?;
        self.stores.remove_ingested(org, id).await?;
        self.stores.row_fills().remove_document(org, id).await?;
        let expires = deleted.checked_add(limits::DAY).unwrap_or(deleted);
        self.stores.threads.expire_referrers(org, id.as_str(), expires).await?;
        self.stack_rows(org, id, deleted).await
    }

    /// Deletes the rows of a deleted document in the tables of stacks. The next call continues after an interruption. Fails at the end
    /// if a row is unreadable, so that a later sweep deletes it.
    async fn stack_rows(&self, org: &OrgId, id: &DocumentId, deleted: Timestamp) -> Result<()> {
        let rows = self.stores.of::<StackRow>();
        let filter = StackRowFilter { document: Some(id.clone()), ..StackRowFilter::default() };
        let mut list =
            ListSweep::new(&self.stores.unreadable, format_args!("table rows of {id} of {org}"), ROWS_PER_READ);
        while let Some(request) = list.request() {
            for row in list.items(rows.list(org, &filter, &request).await)? {
                let key = format!("folio-clean-up-{}-{}", row.id, row.version).parse()?;
                let expected = Expected::Version(row.version);
                let write = Write::by_platform(org.clone(), key, deleted, expected, StackRowChange::Delete);
                // A row that changes meanwhile is deleted by the final clean-up.
                rows.decide(&row.id, write).await?;
            }
        }
        match list.skipped() {
            0 => Ok(()),
            skipped => Err(Error::stored_format(format!("{skipped} table rows of the document are unreadable"))),
        }
    }
}
