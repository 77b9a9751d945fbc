//! Jobs of a node: one supervised actor per running job, and the sweep that finds jobs to start.
//!
//! | part | task |
//! |---|---|
//! | `sweep.rs` | reads the index of open jobs; starts jobs, removes rows and records of ended ones |
//! | `supervisor.rs` | starts an actor for a job, within the limits of the organization and the node |
//! | `actor.rs`, `runner.rs` | starts the job under a new epoch, runs the items of a page, several at a time, and writes each step |
//! | [`JobKind`] | does the work of an item |
//! | [`JobControl`] | creates jobs and changes them for users, in any process |
//! | [`JobHints`] | hints of jobs that can start, through Redis |
//! | [`JobsSnapshot`] | numbers of jobs for the metrics of the node |
//!
//! [`folio_history::job`] decides; this crate reads, writes and waits. It must not know what an item is. A job survives
//! its node: the sweep of the node at which it is placed starts it again once the membership reports the owner dead.
//! A hint only saves the time until the next sweep.

mod actor;
mod control;
mod hints;
mod kind;
mod metrics;
mod runner;
mod shared;
mod supervisor;
mod sweep;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_history::job::JobLimits;
use folio_storage::{SlotStore, Stores};
use folio_types::{Environment, Error, Incarnation, JobId, Liveness, OrgId, Result};
use futures::future::BoxFuture;
use ractor::{Actor, ActorRef};

pub use control::{JobControl, JobRequest};
pub use hints::JobHints;
pub use kind::{ItemTask, JobKind, wait_reason};
pub use metrics::{EndedJobs, JobsSnapshot, QueueLoad};

use crate::shared::Shared;
use crate::supervisor::{Supervisor, SupervisorMsg};

/// Maximum wait for stopped actors and tasks.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait for jobs to be released at the end of a drain.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

folio_types::with_defaults! {
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Options {
        pub limits: JobLimits = JobLimits::default(),
        /// Maximum number of running jobs of this node in each queue (64).
        pub running_max: usize = 64,
        /// Time between two sweeps (5 s).
        pub sweep_interval: Duration = Duration::from_secs(5),
        /// Time between two checks of a running job for a cancel or a pause (1 s). It renews the lease of a slot.
        pub poll_interval: Duration = Duration::from_secs(1),
        /// Time between two writes of the running time (30 s).
        pub checkpoint_interval: Duration = Duration::from_secs(30),
        /// Pause before a write is repeated, and before the first repetition of an item, which doubles (1 s).
        pub retry_pause: Duration = Duration::from_secs(1),
    }
}

/// Liveness and placement of nodes.
#[async_trait]
pub trait Placement: Send + Sync {
    /// Returns the liveness of an incarnation according to the current membership view. Never queried for this node's own
    /// incarnation.
    fn liveness(&self, owner: &Incarnation) -> Liveness;

    /// Returns true if placement assigns a job without an owner to this node.
    async fn is_placed_here(&self, org: &OrgId, job: &JobId) -> bool;

    /// Completes when an incarnation is newly dead, so that the sweep finds its jobs soon.
    async fn wait_for_node_loss(&self);
}

/// Called before and after each write of a job with the name of the step: `start:before`, `start:after`. The steps are
/// `start`, `begin`, `finish`, `postpone`, `checkpoint`, `advance`, `wait`, `release`, `complete` and `fail`. A test stops a job
/// by a future that never completes. Not called for jobs of the queue [`folio_history::job::JobQueue::Ingestions`].
pub type Failpoint = Arc<dyn Fn(&str) -> BoxFuture<'static, ()> + Send + Sync>;

#[derive(Clone)]
pub struct Dependencies {
    pub stores: Stores,
    /// Counts the running jobs of an organization in all nodes together.
    pub slots: Arc<dyn SlotStore>,
    pub hints: JobHints,
    pub environment: Arc<dyn Environment>,
    /// Incarnation of this node. Headers of jobs name it as the owner.
    pub incarnation: Incarnation,
    pub placement: Arc<dyn Placement>,
    /// Jobs of other kinds stay queued for nodes of another version.
    pub kinds: Vec<Arc<dyn JobKind>>,
    /// None: no failpoint.
    pub failpoint: Option<Failpoint>,
}

/// Placement in a single process: every other incarnation is an earlier, dead run of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct SingleProcess;

#[async_trait]
impl Placement for SingleProcess {
    fn liveness(&self, _owner: &Incarnation) -> Liveness {
        Liveness::Dead
    }

    async fn is_placed_here(&self, _org: &OrgId, _job: &JobId) -> bool {
        true
    }

    async fn wait_for_node_loss(&self) {
        std::future::pending().await
    }
}

/// The jobs of a node. Cheap to clone. Dropping the last clone stops them without a drain.
#[derive(Clone)]
pub struct Jobs {
    handle: Arc<Handle>,
}

struct Handle {
    shared: Arc<Shared>,
    supervisor: ActorRef<SupervisorMsg>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.stopped.cancel();
        self.supervisor.stop(None);
    }
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").field("running", &self.running()).finish_non_exhaustive()
    }
}

impl Jobs {
    /// Starts the supervisor and the sweep, which reads the index at once.
    pub async fn start(dependencies: Dependencies, options: Options) -> Result<Self> {
        let shared = Arc::new(Shared::new(dependencies, options));
        let (supervisor, _joined) = Actor::spawn(None, Supervisor, Arc::clone(&shared))
            .await
            .map_err(|error| Error::internal(format!("cannot start the supervisor of jobs: {error}")))?;
        Ok(Self { handle: Arc::new(Handle { shared, supervisor }) })
    }

    /// Sweeps all open jobs at once, because a job was created or resumed.
    pub fn wake(&self) {
        self.handle.shared.recheck_all();
    }

    /// Returns the number of jobs that have an actor.
    pub fn running(&self) -> usize {
        self.handle.shared.running_count()
    }

    /// Returns the numbers of jobs for the metrics.
    pub fn snapshot(&self) -> JobsSnapshot {
        let shared = &self.handle.shared;
        shared.metrics.snapshot(|queue| u64::try_from(shared.running_in(queue)).unwrap_or(u64::MAX))
    }

    /// Starts no further item, waits for running items until the deadline, hands the jobs over to other nodes and stops.
    pub async fn drain(&self, deadline: Duration) {
        let shared = &self.handle.shared;
        shared.draining.cancel();
        if tokio::time::timeout(deadline, shared.wait_until_idle()).await.is_err() {
            shared.interrupted.cancel();
            let _ = tokio::time::timeout(RELEASE_TIMEOUT, shared.wait_until_idle()).await;
        }
        self.stop().await;
    }

    /// Stops at once. Another node starts the jobs when it finds this incarnation dead.
    pub async fn stop(&self) {
        let Handle { shared, supervisor } = &*self.handle;
        shared.draining.cancel();
        shared.stopped.cancel();
        if let Err(error) = supervisor.stop_and_wait(None, Some(STOP_TIMEOUT)).await {
            tracing::warn!(%error, "the supervisor of jobs did not stop in time");
        }
        shared.tracker.close();
        if tokio::time::timeout(STOP_TIMEOUT, shared.tracker.wait()).await.is_err() {
            tracing::warn!("the sweep of jobs did not end in time");
        }
    }
}
