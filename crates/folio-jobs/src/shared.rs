//! The state that the supervisor, the sweep and the actors share.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_history::job::{JobHeader, JobQueue};
use folio_storage::JobRecordStore;
use folio_types::{Incarnation, JobId, Liveness, OrgId, Result, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::metrics::JobMetrics;
use crate::{Dependencies, JobKind, Options};

/// Maximum number of running deliveries of an organization. Each takes seconds at most.
const DELIVERIES_RUNNING_MAX: u32 = 16;
/// Maximum number of running ingestions of texts and of maintenance jobs of an organization, so that an upload of many documents
/// leaves capacity for other organizations.
const INGESTIONS_RUNNING_MAX: u32 = 4;

/// A job with an actor.
struct RunningJob {
    queue: JobQueue,
    /// The job ended, waits or was handed over, so that its slot is free.
    is_done: bool,
}

pub(crate) type Key = (OrgId, JobId);

pub(crate) struct Shared {
    pub(crate) dependencies: Dependencies,
    pub(crate) options: Options,
    kinds: BTreeMap<&'static str, Arc<dyn JobKind>>,
    running: Mutex<HashMap<Key, RunningJob>>,
    pub(crate) metrics: JobMetrics,
    /// Notified when an actor ends.
    ended: Notify,
    pub(crate) wake: Notify,
    /// If true, the next sweep reads waiting and paused jobs before their time.
    rechecks_all: AtomicBool,
    /// Cancelled when no further item may start.
    pub(crate) draining: CancellationToken,
    /// Cancelled when running items must be interrupted and their jobs handed over.
    pub(crate) interrupted: CancellationToken,
    /// Cancelled when nothing more may be written.
    pub(crate) stopped: CancellationToken,
    pub(crate) tracker: TaskTracker,
}

impl Shared {
    pub(crate) fn new(dependencies: Dependencies, options: Options) -> Self {
        let kinds = dependencies.kinds.iter().map(|kind| (kind.name(), Arc::clone(kind))).collect();
        Self {
            dependencies,
            options,
            kinds,
            running: Mutex::default(),
            metrics: JobMetrics::default(),
            ended: Notify::new(),
            wake: Notify::new(),
            rechecks_all: AtomicBool::new(false),
            draining: CancellationToken::new(),
            interrupted: CancellationToken::new(),
            stopped: CancellationToken::new(),
            tracker: TaskTracker::new(),
        }
    }

    pub(crate) fn jobs(&self) -> &dyn JobRecordStore {
        &*self.dependencies.stores.jobs
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.dependencies.environment.now()
    }

    /// Returns the current time for decisions that are final. Fails while the clock is known to be wrong.
    pub(crate) fn checked_now(&self) -> Result<Timestamp> {
        self.dependencies.environment.checked_now()
    }

    /// None: this build does not know the kind.
    pub(crate) fn kind(&self, name: &str) -> Option<Arc<dyn JobKind>> {
        self.kinds.get(name).cloned()
    }

    /// Counts an ended job for the metrics.
    pub(crate) fn count_end(&self, job: &JobHeader) {
        let kind = self.kinds.get_key_value(job.kind.as_str()).map(|(name, _)| *name);
        self.metrics.count_end(kind, job);
    }

    /// Returns the liveness of an owner of a job that has no actor in this process.
    pub(crate) fn liveness(&self, owner: &Incarnation) -> Liveness {
        if *owner == self.dependencies.incarnation {
            Liveness::Dead
        } else {
            self.dependencies.placement.liveness(owner)
        }
    }

    /// Starts a sweep that reads all jobs.
    pub(crate) fn recheck_all(&self) {
        self.rechecks_all.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }

    /// Returns whether [`Self::recheck_all`] was called since the previous call.
    pub(crate) fn take_recheck(&self) -> bool {
        self.rechecks_all.swap(false, Ordering::SeqCst)
    }

    pub(crate) async fn hit(&self, step: &str, position: &str) {
        if let Some(failpoint) = &self.dependencies.failpoint {
            failpoint(&format!("{step}:{position}")).await;
        }
    }

    pub(crate) fn is_running(&self, key: &Key) -> bool {
        self.running().contains_key(key)
    }

    pub(crate) fn running_count(&self) -> usize {
        self.running().len()
    }

    /// Returns the number of jobs of a queue that have an actor.
    pub(crate) fn running_in(&self, queue: JobQueue) -> usize {
        self.running().values().filter(|job| job.queue == queue).count()
    }

    /// Returns true if this process may run a further job in each queue.
    pub(crate) fn has_capacity(&self) -> bool {
        JobQueue::ALL.into_iter().all(|queue| self.running_in(queue) < self.options.running_max)
    }

    /// Returns the maximum number of running jobs of an organization in a queue.
    fn running_max(&self, queue: JobQueue) -> u32 {
        match queue {
            JobQueue::Work => self.options.limits.running_max,
            JobQueue::Deliveries => DELIVERIES_RUNNING_MAX,
            JobQueue::Ingestions => INGESTIONS_RUNNING_MAX,
        }
    }

    /// Returns the number of jobs of an organization and a queue that may start in this process.
    pub(crate) fn free(&self, org: &OrgId, queue: JobQueue) -> usize {
        let running = self.running();
        let of_queue = running.iter().filter(|(_, job)| job.queue == queue).count();
        let of_org = running.iter().filter(|((owner, _), job)| owner == org && job.queue == queue).count();
        let limit = usize::try_from(self.running_max(queue)).unwrap_or(usize::MAX);
        limit.saturating_sub(of_org).min(self.options.running_max.saturating_sub(of_queue))
    }

    pub(crate) fn insert(&self, key: Key, queue: JobQueue) {
        self.running().insert(key, RunningJob { queue, is_done: false });
    }

    fn queue_of(&self, key: &Key) -> JobQueue {
        self.running().get(key).map(|job| job.queue).unwrap_or_default()
    }

    /// Makes the removal of a job start the next sweep. A job that failed to start waits for the periodic one.
    pub(crate) fn mark_done(&self, key: &Key) {
        if let Some(job) = self.running().get_mut(key) {
            job.is_done = true;
        }
    }

    pub(crate) fn remove(&self, key: &Key) {
        let is_done = self.running().remove(key).is_some_and(|job| job.is_done);
        self.ended.notify_waiters();
        if is_done {
            self.wake.notify_one();
        }
    }

    pub(crate) async fn wait_until_idle(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.running_count() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Takes a slot of the organization. While the store of slots is unavailable, this process counts its own jobs only.
    pub(crate) async fn take_slot(&self, key: &Key) -> bool {
        let (queue, name) = (self.queue_of(key), self.slot_name(key));
        let taken = self.dependencies.slots.take(&key.0, queue.slots(), &name, self.running_max(queue)).await;
        taken.unwrap_or_else(|error| {
            tracing::debug!(%error, "the shared store is unavailable; running jobs are counted in this process only");
            true
        })
    }

    /// Renews or frees a slot. A failure is harmless: the lease ends, or the next renewal repeats the call.
    pub(crate) async fn sync_slot(&self, key: &Key, is_taken: bool) {
        let (slots, org, name) = (&self.dependencies.slots, &key.0, [self.slot_name(key)]);
        let kind = self.queue_of(key).slots();
        let synced = match is_taken {
            true => slots.sync(org, kind, &name, &[]).await,
            false => slots.sync(org, kind, &[], &name).await,
        };
        if let Err(error) = synced {
            tracing::debug!(%error, "cannot sync the slot of a job");
        }
    }

    /// Returns the name of a job's slot. Nodes have different names, so that a node whose start was refused does not free
    /// the slot of the owner.
    fn slot_name(&self, (_, job): &Key) -> String {
        format!("{job}/{}", self.dependencies.incarnation)
    }

    /// Callers drop the lock before an await.
    fn running(&self) -> MutexGuard<'_, HashMap<Key, RunningJob>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
