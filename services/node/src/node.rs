//! The lifecycle of a node: start, service, drain. In a cluster, a node that the membership declares dead restarts
//! under a new incarnation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use folio_cluster::{Describe, IndexCalls, Membership, Peers};
use folio_conversation::{
    Conversations, Dependencies, Failpoints, Options, Owners, SharedTurnStores, SingleProcessOwners, Snapshot,
};
use folio_documents::PageRenderer;
use folio_history::job::JobLimits;
use folio_history::peer::SharedPeer;
use folio_jobs::{JobHints, JobKind, Jobs, JobsSnapshot};
use folio_knowledge::{Agents, IndexRebuilds, IngestionJobs, Knowledge, Reembeddings, TurnDriver, retriever};
use folio_llm::Models;
use folio_metering::{OperationMeter, SharedMeter};
use folio_quotas::Slots;
use folio_storage::{NodeRecord, SlotStore, Stores};
use folio_tools::ingestion::{NoPassages, PassageIngester};
use folio_tools::mcp::McpServers;
use folio_tools::sections::OutlineCache;
use folio_tools::{Registry, ToolResources, auto_create};
use folio_types::profile::AUTO_CREATE_PROFILE;
use folio_types::{Environment, Incarnation, Result, Timestamp};
use futures::future::OptionFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent_jobs::{AgentJobs, AgentRuns, TurnRunner};
use crate::auto_create_jobs::AutoCreateJobs;
use crate::document_images::DocumentImages;
use crate::extraction_jobs::ExtractionJobs;
use crate::owners::ClusterOwners;
use crate::stack_jobs::{StackFillJobs, StackPlanJobs};

/// Delay before the next attempt of a failed restart.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Maximum wait for the settlement of the model calls of stopped jobs.
const SETTLEMENT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct NodeParts {
    pub stores: Stores,
    pub models: Arc<dyn Models>,
    pub meter: SharedMeter,
    pub environment: Arc<dyn Environment>,
    /// Bounds of extractions.
    pub extraction: folio_tools::extraction::Options,
    /// Bounds of runs that make proposals.
    pub auto_create: auto_create::Options,
    /// Limits the running turns.
    pub turn_slots: Slots,
    /// Stores in which the node publishes its turns.
    pub shared_turns: SharedTurnStores,
    pub jobs: JobParts,
    /// Renders page images.
    pub pages: PageRenderer,
    /// Calls the MCP servers of organizations.
    pub mcp: Arc<dyn McpServers>,
    /// The passages of documents and their index. None: this node ingests no documents.
    pub knowledge: Option<Knowledge>,
    /// None: this process is the only node.
    pub cluster: Option<ClusterParts>,
    /// True while the clock of the process is right. With a wrong clock the node runs no conversation.
    pub clock: watch::Receiver<bool>,
}

/// Dependencies of the jobs of a node.
#[derive(Clone)]
pub struct JobParts {
    /// Counts the running jobs of an organization.
    pub slots: Arc<dyn SlotStore>,
    pub hints: JobHints,
    pub limits: JobLimits,
    /// The kinds of jobs that do not use tools.
    pub kinds: Vec<Arc<dyn JobKind>>,
    /// Reaches the conversations of all nodes, for jobs that run turns. None: this process is the only node.
    pub conversations: Option<SharedPeer>,
}

#[derive(Clone)]
pub struct ClusterParts {
    pub membership: Membership,
    /// `host:port` at which peers reach the node.
    pub address: String,
    pub peers: Peers,
}

/// The conversations and jobs of this process. Cheap to clone. Dropping the last clone stops the node without a drain.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    parts: NodeParts,
    started_at: Timestamp,
    current: RwLock<RunningIncarnation>,
    draining: AtomicBool,
    /// The index of passages for other processes. Empty: the node has none.
    index: OnceLock<Arc<dyn IndexCalls>>,
    token: CancellationToken,
    tracker: TaskTracker,
}

#[derive(Clone)]
struct RunningIncarnation {
    incarnation: Incarnation,
    conversations: Conversations,
    jobs: Jobs,
    /// The settlements of model calls of jobs.
    settlements: TaskTracker,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("incarnation", &self.incarnation()).finish_non_exhaustive()
    }
}

impl Node {
    /// Starts a node under a new incarnation. This node or another one finds and ends the turns that an earlier
    /// incarnation left running.
    pub async fn start(options: Options, parts: NodeParts) -> Result<Self> {
        let current = RunningIncarnation::start(&options, &parts).await?;
        let inner = Arc::new(Inner {
            started_at: parts.environment.now(),
            options,
            parts,
            current: RwLock::new(current),
            draining: AtomicBool::new(false),
            index: OnceLock::new(),
            token: CancellationToken::new(),
            tracker: TaskTracker::new(),
        });
        if let Some(cluster) = &inner.parts.cluster {
            inner.join(&cluster.membership).await;
        }
        let membership = inner.parts.cluster.as_ref().map(|cluster| cluster.membership.clone());
        let restarts = restart_when_needed(Arc::downgrade(&inner), membership, inner.parts.clock.clone());
        inner.tracker.spawn(inner.token.clone().run_until_cancelled_owned(restarts));
        Ok(Self { inner })
    }

    /// Returns the current incarnation. It changes if the membership declares the node dead.
    pub fn incarnation(&self) -> Incarnation {
        self.inner.current().incarnation
    }

    pub fn started_at(&self) -> Timestamp {
        self.inner.started_at
    }

    /// Returns the number of page images that this node renders now.
    pub fn rendered_images(&self) -> usize {
        self.pages().running()
    }

    /// Serves an index of passages to the other processes of the cluster. A second index has no effect.
    pub fn serve_index(&self, index: Arc<dyn IndexCalls>) {
        let _ = self.inner.index.set(index);
    }

    pub(crate) fn index_calls(&self) -> Option<&Arc<dyn IndexCalls>> {
        self.inner.index.get()
    }

    pub(crate) fn pages(&self) -> &PageRenderer {
        &self.inner.parts.pages
    }

    pub(crate) fn conversations(&self) -> Conversations {
        self.inner.current().conversations
    }

    /// Returns the numbers of jobs since the start of the current incarnation.
    pub fn jobs_snapshot(&self) -> JobsSnapshot {
        self.inner.current().jobs.snapshot()
    }

    pub fn snapshot(&self) -> Snapshot {
        self.conversations().snapshot()
    }

    /// Announces the drain to the other nodes, refuses new work, waits for running turns and items of jobs until the
    /// deadline and releases idle threads. Turns that still run at the deadline are stopped; their next owner ends them
    /// as failed, retriable. Pending turns keep their state. Jobs are handed over to other nodes.
    pub async fn drain(&self, deadline: Duration) {
        self.inner.draining.store(true, Ordering::SeqCst);
        let membership = self.inner.parts.cluster.as_ref().map(|cluster| &cluster.membership);
        if let Some(membership) = membership {
            membership.announce().await;
        }
        let current = self.inner.current();
        tokio::join!(current.conversations.drain(deadline), current.drain_jobs(deadline));
        self.inner.token.cancel();
        self.inner.tracker.close();
        self.inner.tracker.wait().await;
        if let Some(membership) = membership {
            membership.leave().await;
        }
        tracing::info!(incarnation = %current.incarnation, "node drained");
    }
}

impl RunningIncarnation {
    async fn start(options: &Options, parts: &NodeParts) -> Result<Self> {
        let incarnation = Incarnation::generate(parts.environment.as_ref());
        let owners: Arc<dyn Owners> = match &parts.cluster {
            None => Arc::new(SingleProcessOwners),
            Some(ClusterParts { membership, peers, .. }) => {
                Arc::new(ClusterOwners::new(incarnation.clone(), membership.clone(), peers.clone()))
            }
        };
        let failpoints = Failpoints::from_environment();
        let failpoint = failpoints.as_function();
        let dependencies = Dependencies {
            stores: parts.stores.clone(),
            models: parts.models.clone(),
            meter: parts.meter.clone(),
            turn_slots: parts.turn_slots.clone(),
            tools: Registry::configured(&parts.auto_create)?,
            environment: parts.environment.clone(),
            extraction: parts.extraction.clone(),
            job_limits: parts.jobs.limits,
            job_hints: parts.jobs.hints.queue(),
            mcp: Arc::clone(&parts.mcp),
            retriever: retriever(parts.knowledge.as_ref()),
            passages: passages(parts),
            images: Arc::new(DocumentImages(parts.pages.clone())),
            incarnation: incarnation.clone(),
            owners,
            all_nodes: parts.jobs.conversations.clone(),
            shared_turns: Some(parts.shared_turns.clone()),
            failpoints,
        };
        let conversations = Conversations::start(dependencies, options.clone()).await?;
        let settlements = TaskTracker::new();
        let runner = match &parts.jobs.conversations {
            Some(peer) => TurnRunner::AllNodes(Arc::clone(peer)),
            None => TurnRunner::ThisNode(conversations.clone()),
        };
        let jobs = start_jobs(&incarnation, parts, (settlements.clone(), runner, failpoint)).await?;
        tracing::info!(%incarnation, "node started");
        Ok(Self { incarnation, conversations, jobs, settlements })
    }

    /// Stops the conversations and jobs at once.
    async fn stop(&self) {
        tokio::join!(self.conversations.stop(), self.jobs.stop());
        self.settle().await;
    }

    async fn drain_jobs(&self, deadline: Duration) {
        self.jobs.drain(deadline).await;
        self.settle().await;
    }

    async fn settle(&self) {
        self.settlements.close();
        if tokio::time::timeout(SETTLEMENT_TIMEOUT, self.settlements.wait()).await.is_err() {
            tracing::warn!(calls = self.settlements.len(), "model calls of jobs were not settled in time");
        }
    }
}

/// Returns the port through which the tools of agents make passages.
fn passages(parts: &NodeParts) -> Arc<dyn PassageIngester> {
    match &parts.knowledge {
        Some(knowledge) => Arc::new(knowledge.clone()),
        None => Arc::new(NoPassages),
    }
}

/// Starts the jobs of an incarnation, with every kind of job.
async fn start_jobs(
    incarnation: &Incarnation,
    parts: &NodeParts,
    (settlements, runner, failpoint): (TaskTracker, TurnRunner, Option<folio_jobs::Failpoint>),
) -> Result<Jobs> {
    let resources = ToolResources {
        stores: parts.stores.clone(),
        models: Arc::clone(&parts.models),
        meter: Arc::clone(&parts.meter),
        environment: Arc::clone(&parts.environment),
        extraction: parts.extraction.clone(),
        job_limits: parts.jobs.limits,
        job_hints: parts.jobs.hints.queue(),
        mcp: Arc::clone(&parts.mcp),
        // Jobs call no tool that makes passages.
        passages: Arc::new(NoPassages),
        outlines: OutlineCache::default(),
        retriever: retriever(parts.knowledge.as_ref()),
        images: Arc::new(DocumentImages(parts.pages.clone())),
        tasks: settlements,
    };
    let placement: Arc<dyn folio_jobs::Placement> = match &parts.cluster {
        None => Arc::new(folio_jobs::SingleProcess),
        Some(ClusterParts { membership, peers, .. }) => {
            Arc::new(ClusterOwners::new(incarnation.clone(), membership.clone(), peers.clone()))
        }
    };
    let mut kinds = parts.jobs.kinds.clone();
    let agent = Arc::new(AgentRuns::new(runner, parts.stores.clone(), Arc::clone(&parts.environment)));
    kinds.push(Arc::new(AgentJobs(Arc::clone(&agent))));
    let (options, runs) = (parts.auto_create.clone(), Arc::clone(&agent));
    let meter: SharedMeter = Arc::new(OperationMeter::new(Arc::clone(&parts.meter), AUTO_CREATE_PROFILE));
    let automatic = ToolResources { meter, ..resources.clone() };
    kinds.push(Arc::new(AutoCreateJobs { resources: automatic, options, runs }));
    if let Some(knowledge) = &parts.knowledge {
        let agents = Agents::new(Arc::clone(&agent) as Arc<dyn TurnDriver>);
        let knowledge = knowledge.clone().with_resources(resources.clone()).with_network(Arc::new(agents));
        let knowledge = knowledge.with_failpoint(failpoint.clone());
        kinds.push(Arc::new(IngestionJobs::of_users(knowledge.clone())));
        kinds.push(Arc::new(IngestionJobs::of_writes(knowledge.clone())));
        kinds.push(Arc::new(IndexRebuilds(knowledge.clone())));
        kinds.push(Arc::new(Reembeddings(knowledge)));
    }
    kinds.push(Arc::new(StackPlanJobs { resources: resources.clone() }));
    kinds.push(Arc::new(StackFillJobs { resources: resources.clone(), runs: Arc::clone(&agent) }));
    kinds.push(Arc::new(ExtractionJobs { resources, agent }));
    let dependencies = folio_jobs::Dependencies {
        stores: parts.stores.clone(),
        slots: Arc::clone(&parts.jobs.slots),
        hints: parts.jobs.hints.clone(),
        environment: Arc::clone(&parts.environment),
        incarnation: incarnation.clone(),
        placement,
        kinds,
        failpoint,
    };
    let options = folio_jobs::Options { limits: parts.jobs.limits, ..folio_jobs::Options::default() };
    Jobs::start(dependencies, options).await
}

impl Inner {
    fn current(&self) -> RunningIncarnation {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    async fn join(self: &Arc<Self>, membership: &Membership) {
        let incarnation = self.current().incarnation;
        membership.join(incarnation.clone(), self.describe(incarnation)).await;
    }

    fn describe(self: &Arc<Self>, incarnation: Incarnation) -> Describe {
        let me: Weak<Self> = Arc::downgrade(self);
        let address = self.parts.cluster.as_ref().map(|cluster| cluster.address.clone()).unwrap_or_default();
        let (capacity, started_at) = (self.options.live_max, self.started_at);
        Arc::new(move || {
            let node = me.upgrade();
            let snapshot = node.as_ref().map(|node| node.current().conversations.snapshot()).unwrap_or_default();
            NodeRecord {
                incarnation: incarnation.clone(),
                address: address.clone(),
                draining: node.is_none_or(|node| node.is_draining()),
                conversations: snapshot.live as u64,
                busy_conversations: snapshot.working as u64,
                capacity: capacity as u64,
                started_at,
                version: env!("CARGO_PKG_VERSION").to_owned(),
            }
        })
    }
}

/// Restarts the node under a new incarnation whenever the membership declares the current one dead, and after its clock
/// was wrong. The conversations are stopped first; the fence, an op row or a sealed block refuses their in-flight writes.
async fn restart_when_needed(node: Weak<Inner>, membership: Option<Membership>, mut clock: watch::Receiver<bool>) {
    loop {
        let Some(current) = node.upgrade().map(|node| node.current()) else { return };
        let declared_dead = OptionFuture::from(membership.as_ref().map(|it| it.declared_dead(&current.incarnation)));
        tokio::select! {
            Some(()) = declared_dead => {}
            Ok(_) = clock.wait_for(|is_right| !is_right) => {}
            else => return,
        }
        current.stop().await;
        if !*clock.borrow() {
            tracing::error!("the clock is wrong; the node hands its threads over");
            OptionFuture::from(membership.as_ref().map(Membership::leave)).await;
            if clock.wait_for(|is_right| *is_right).await.is_err() {
                return;
            }
        }
        let Some(node) = node.upgrade().filter(|node| !node.is_draining()) else { return };
        match RunningIncarnation::start(&node.options, &node.parts).await {
            Ok(next) => {
                *node.current.write().unwrap_or_else(PoisonError::into_inner) = next;
                if let Some(membership) = &membership {
                    node.join(membership).await;
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot restart the node; retrying");
                tokio::time::sleep(RESTART_PAUSE).await;
            }
        }
    }
}
