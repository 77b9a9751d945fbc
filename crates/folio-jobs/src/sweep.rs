//! The sweep: starts jobs without an owner, fails jobs that are open for too long, ends the work of ended jobs
//! ([`JobKind::end_job`](crate::JobKind::end_job)) and removes their rows from the index, and deletes records after their
//! retention.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use folio_history::job::{JobCommand, JobHeader, JobQueue, JobWrite, OpenJobRow, RowAction, row_action};
use folio_storage::UnreadableRecords;
use folio_types::{JobId, OrgId, Result, Timestamp};
use ractor::ActorRef;

use crate::metrics::SweepCounts;
use crate::shared::{Key, Shared};
use crate::supervisor::SupervisorMsg;

const ROWS_PER_READ: usize = 256;
/// Maximum number of records that one sweep deletes, without the unreadable ones before them.
const DELETIONS_MAX: usize = 64;
/// Maximum time until a waiting or paused job is read again, because a user may have resumed it.
const RECHECK: Duration = Duration::from_secs(30);

/// Sweeps until the node stops: at once, periodically, when a node is lost, and when a job ended or was created.
pub(crate) fn until_stopped(shared: &Arc<Shared>, supervisor: ActorRef<SupervisorMsg>) {
    let shared = Arc::clone(shared);
    let tracker = shared.tracker.clone();
    tracker.spawn(async move {
        let stopped = shared.stopped.clone();
        let mut sweeper = Sweeper { shared, supervisor, waiting: HashMap::new() };
        let _ = stopped.run_until_cancelled(sweeper.sweep_forever()).await;
    });
}

struct Sweeper {
    shared: Arc<Shared>,
    supervisor: ActorRef<SupervisorMsg>,
    /// Jobs that need no check before a time.
    waiting: HashMap<Key, Timestamp>,
}

/// Jobs that a sweep found.
#[derive(Default)]
struct Found {
    waiting: HashMap<Key, Timestamp>,
    /// Number of jobs that may still start.
    free: HashMap<(OrgId, JobQueue), usize>,
    /// Numbers for the metrics.
    counts: BTreeMap<JobQueue, SweepCounts>,
}

impl Found {
    fn counts(&mut self, queue: JobQueue) -> &mut SweepCounts {
        self.counts.entry(queue).or_default()
    }
}

impl Sweeper {
    async fn sweep_forever(&mut self) {
        loop {
            if let Err(error) = self.sweep().await {
                tracing::warn!(%error, "the sweep of jobs was interrupted; the next one repeats it");
            }
            tokio::select! {
                () = tokio::time::sleep(self.shared.options.sweep_interval) => {}
                () = self.shared.wake.notified() => {}
                () = self.shared.dependencies.placement.wait_for_node_loss() => {}
            }
        }
    }

    async fn sweep(&mut self) -> Result<()> {
        let mut found = Found::default();
        if self.shared.take_recheck() {
            self.waiting.clear();
        }
        let mut after: Option<OpenJobRow> = None;
        loop {
            let rows = self.shared.jobs().open(after.as_ref(), ROWS_PER_READ).await?;
            let has_more = rows.len() == ROWS_PER_READ;
            for row in rows {
                found.counts(row.queue).open += 1;
                let checked = self.check(&row, &mut found).await;
                self.unreadable().skip(format_args!("job {} of {}", row.job, row.org), checked)?;
                after = Some(row);
            }
            if !has_more {
                break;
            }
        }
        self.waiting = found.waiting;
        self.shared.metrics.set_sweep(found.counts);
        self.shared.jobs().compact_open().await?;
        self.delete_expired().await
    }

    async fn check(&self, row: &OpenJobRow, found: &mut Found) -> Result<()> {
        let (shared, key, now) = (&self.shared, (row.org.clone(), row.job.clone()), self.shared.checked_now()?);
        if shared.draining.is_cancelled() || shared.is_running(&key) {
            return Ok(());
        }
        if let Some(until) = self.waiting.get(&key).filter(|until| now < **until) {
            found.waiting.insert(key, *until);
            return Ok(());
        }
        // Most jobs of an organization that uses all its slots are queued: they are not read.
        let free = found.free.entry((row.org.clone(), row.queue));
        let free = free.or_insert_with(|| shared.free(&row.org, row.queue));
        if *free == 0 || !shared.dependencies.placement.is_placed_here(&key.0, &key.1).await {
            return Ok(());
        }
        let header = shared.jobs().header(&key.0, &key.1).await?;
        match row_action(row, header.as_ref(), |owner| shared.liveness(owner), now) {
            RowAction::Remove => {
                match &header {
                    Some(header) => {
                        if let Some(kind) = shared.kind(&header.kind) {
                            kind.end_job(header).await?;
                        }
                    }
                    // The job was not created after its pages, or its record was deleted after them.
                    None => shared.dependencies.stores.job_pages().remove(&key.0, &key.1).await?,
                }
                shared.jobs().remove_open(std::slice::from_ref(row)).await?;
                // A row that the store moved to another time may stay; its job is then counted twice.
                if let Some(header) = &header {
                    shared.count_end(header);
                }
            }
            RowAction::Skip => {}
            RowAction::CheckAt(at) => {
                // No user resumes a delivery or an ingestion of a text.
                let recheck = match row.queue {
                    JobQueue::Work => now.saturating_add(RECHECK).unwrap_or(at),
                    JobQueue::Deliveries | JobQueue::Ingestions => at,
                };
                found.waiting.insert(key, at.min(recheck));
            }
            RowAction::Start => {
                // A job of a kind that this build does not know stays queued.
                if header.as_ref().is_some_and(|header| shared.kind(&header.kind).is_some()) {
                    *free -= 1;
                    let _ = self.supervisor.send_message(SupervisorMsg::Start(row.queue, key));
                }
                found.counts(row.queue).ready += 1;
            }
            RowAction::Expire => self.expire(header).await?,
        }
        Ok(())
    }

    /// Fails a job that is open for too long. If another process changed it meanwhile, the next sweep reads it again.
    async fn expire(&self, header: Option<JobHeader>) -> Result<()> {
        let Some(before) = header else { return Ok(()) };
        if let Some(after) = before.after(JobCommand::Expire, self.shared.checked_now()?)? {
            let batch = self.shared.dependencies.environment.random();
            self.shared.jobs().write(JobWrite { batch, before, after, outcome: None }).await?;
        }
        Ok(())
    }

    async fn delete_expired(&self) -> Result<()> {
        // Unreadable jobs stay at the start of the index.
        let limit = DELETIONS_MAX.saturating_add(self.unreadable().count());
        for (org, job) in self.shared.jobs().expired(self.shared.checked_now()?, limit).await? {
            if self.shared.dependencies.placement.is_placed_here(&org, &job).await {
                let deleted = self.delete(&org, &job).await;
                self.unreadable().skip(format_args!("job {job} of {org}"), deleted)?;
            }
        }
        Ok(())
    }

    async fn delete(&self, org: &OrgId, job: &JobId) -> Result<()> {
        // Read first: the record of an unreadable job may be of a newer version, and then needs its budget and its pages.
        self.shared.jobs().header(org, job).await?;
        // Removed first: the budget and the pages of a deleted job would remain after a failure.
        let stores = &self.shared.dependencies.stores;
        stores.budgets().remove(org, job.as_str()).await?;
        stores.job_pages().remove(org, job).await?;
        self.shared.jobs().delete(org, job).await
    }

    fn unreadable(&self) -> &UnreadableRecords {
        &self.shared.dependencies.stores.unreadable
    }
}
