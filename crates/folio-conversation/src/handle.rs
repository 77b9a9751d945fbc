//! The public handle of a node's conversations.

mod threads;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use folio_history::event::TurnView;
use folio_history::job::JobLimits;
use folio_llm::Models;
use folio_metering::SharedMeter;
use folio_quotas::Slots;
use folio_storage::{JobStore, Stores};
use folio_tools::Registry;
use folio_tools::mcp::McpServers;
use folio_tools::retrieval::Retriever;
use folio_trace::TraceContext;
use folio_types::{Environment, Error, Incarnation, OrgId, Principal, Reason, Result, ThreadId, TurnId};
use futures::StreamExt as _;
use ractor::{Actor, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::actor::{Msg, Reply, Request};
use crate::events::{Rejoin, StreamStart, follow};
use crate::failpoint::Failpoints;
use crate::options::Options;
use crate::owners::Owners;
use crate::prepare;
use crate::publish::SharedTurnStores;
use crate::shared::{Shared, draining};
use crate::snapshot::Snapshot;
use crate::supervisor::{Key, MEMORY_WAIT, Supervisor, SupervisorMsg, SupervisorStart, millis_since};
use folio_history::command::{ApproveAnswer, ApproveCommand, ChatCommand};
use folio_history::peer::{EventStream, SharedPeer};

/// Maximum attempts to reach a conversation that stops during the request.
const ADMIT_ATTEMPTS_MAX: u32 = 6;
const SNAPSHOT_CONVERSATIONS_MAX: usize = 1_000;
/// Time limit of a request that waits for neither a model nor a tool.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit of a request that waits for a turn. Rounds, tools and models have shorter limits.
const TURN_TIMEOUT: Duration = Duration::from_secs(2 * 60 * 60);
/// Maximum wait for the publishers of ended turns during a drain.
const PUBLISH_WAIT: Duration = Duration::from_secs(2);
/// Maximum wait for stopped tasks.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Dependencies {
    pub stores: Stores,
    pub models: Arc<dyn Models>,
    /// Meters every model call.
    pub meter: SharedMeter,
    pub turn_slots: Slots,
    pub tools: Arc<Registry>,
    pub environment: Arc<dyn Environment>,
    /// Bounds of extractions.
    pub extraction: folio_tools::extraction::Options,
    /// Limits of the jobs that tools create.
    pub job_limits: JobLimits,
    /// Queue of the hints of these jobs.
    pub job_hints: Arc<dyn JobStore>,
    /// Calls the MCP servers of organizations.
    pub mcp: Arc<dyn McpServers>,
    /// Finds passages of documents.
    pub retriever: Arc<dyn Retriever>,
    /// Incarnation of this node. Thread headers name it as the owner.
    pub incarnation: Incarnation,
    pub owners: Arc<dyn Owners>,
    /// Reaches the conversations of all nodes, for child turns. None: this process is the only node.
    pub all_nodes: Option<SharedPeer>,
    /// Stores in which turns are published to other nodes. None: there are no other nodes.
    pub shared_turns: Option<SharedTurnStores>,
    /// Failpoints of tests. Default: none.
    pub failpoints: Failpoints,
}

/// The conversations of this node. Cheap to clone.
///
/// Threads of other organizations are `NOT_FOUND`; so are threads of other users, unless the principal is an admin. A
/// viewer may only read.
#[derive(Clone)]
pub struct Conversations {
    node: Arc<Node>,
}

/// State of the handles. Dropping the last handle stops all conversations.
pub(crate) struct Node {
    shared: Arc<Shared>,
    supervisor: ActorRef<SupervisorMsg>,
    started_at: Instant,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.token.cancel();
        self.supervisor.stop(None);
    }
}

impl Conversations {
    /// Starts the supervisor and the first sweep, which ends turns that an earlier incarnation left running.
    pub async fn start(dependencies: Dependencies, options: Options) -> Result<Self> {
        let shared = Arc::new(Shared::new(dependencies, options));
        let started_at = Instant::now();
        let start = SupervisorStart { shared: shared.clone(), started_at };
        let (supervisor, _joined) = Actor::spawn(None, Supervisor, start)
            .await
            .map_err(|error| Error::internal(format!("cannot start the supervisor of conversations: {error}")))?;
        let node = Arc::new(Node { shared, supervisor, started_at });
        node.shared.peer.set_this_node(Arc::downgrade(&node));
        Ok(Self { node })
    }

    pub(crate) fn of(node: Arc<Node>) -> Self {
        Self { node }
    }

    /// Starts a turn, or joins, resumes or repeats the turn of the request id, and streams its events. Returns when the
    /// turn is accepted; an error means that no turn was accepted. Dropping the future removes a queued message.
    pub async fn chat(&self, principal: &Principal, command: ChatCommand) -> Result<EventStream> {
        self.may_start_work(principal)?;
        let shared = &self.node.shared;
        let mut prepared = prepare::prepare_chat(shared, &principal.org, command).await?;
        let thread = match &prepared.command.thread {
            Some(thread) => thread.clone(),
            None => {
                let mut new = prepare::new_thread_of_chat(shared, principal, &prepared)?;
                prepare::check_media_types(shared, &new).await?;
                prepare::start_from_proposal(shared, &mut new).await?;
                prepared.new.insert(Arc::new(new)).id.clone()
            }
        };
        let key = (principal.org.clone(), thread);
        let make = |reply| Request::Chat(Box::new(prepared.clone()), reply);
        let start = self.request(principal, &key, TURN_TIMEOUT, make).await?;
        let turn = start.turn;
        Ok(self.stream(principal, key, turn, start))
    }

    /// Records decisions. If no decision is missing, runs the round and makes one model call, and returns the result.
    /// Dropping the future does not stop this work.
    pub async fn approve(&self, principal: &Principal, command: ApproveCommand) -> Result<ApproveAnswer> {
        self.may_start_work(principal)?;
        let key = (principal.org.clone(), command.turn.thread.clone());
        let make = |reply| Request::Approve(Box::new(command.clone()), reply);
        self.request(principal, &key, TURN_TIMEOUT, make).await
    }

    /// Resumes a turn that failed retriably, and streams its events. A running turn is joined, so repeating the request
    /// needs no request id. `QUOTA_EXCEEDED` if the organization has its maximum number of concurrent turns.
    pub async fn resume(&self, principal: &Principal, turn: &TurnId) -> Result<EventStream> {
        self.may_start_work(principal)?;
        let key = (principal.org.clone(), turn.thread.clone());
        let make = |reply| Request::Resume(turn.number, reply);
        let start = self.request(principal, &key, ANSWER_TIMEOUT, make).await?;
        Ok(self.stream(principal, key, turn.number, start))
    }

    /// Ends a turn and returns it: the model call is aborted, and pending calls never run. A turn that has ended is
    /// returned unchanged, so repeating the request needs no request id.
    pub async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        prepare::require_member(principal)?;
        let key = (principal.org.clone(), turn.thread.clone());
        self.request(principal, &key, ANSWER_TIMEOUT, |reply| Request::Cancel(turn.number, reply)).await
    }

    pub async fn get_turn(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        let key = (principal.org.clone(), turn.thread.clone());
        let make = |reply| Request::GetTurn(turn.number, reply);
        let (view, part) = self.request(principal, &key, ANSWER_TIMEOUT, make).await?;
        let Some(part) = part else { return Ok(view) };
        let shared = &self.node.shared;
        let budgets = shared.dependencies.stores.budgets();
        let budget = shared.with_store_timeout(budgets.use_of(&principal.org, &part)).await;
        // The turn is returned although the store does not answer.
        Ok(TurnView { budget: budget.unwrap_or_default(), ..view })
    }

    /// None: no turn is open.
    pub async fn open_turn(&self, principal: &Principal, thread: &ThreadId) -> Result<Option<TurnView>> {
        let key = (principal.org.clone(), thread.clone());
        self.request(principal, &key, ANSWER_TIMEOUT, Request::OpenTurn).await
    }

    /// Streams the events of a turn from number `from_event` (0 and 1: from the first), or from a snapshot if these
    /// events are unavailable. The stream ends with the closing event.
    pub async fn watch(&self, principal: &Principal, turn: &TurnId, from_event: u64) -> Result<EventStream> {
        let key = (principal.org.clone(), turn.thread.clone());
        let make = |reply| Request::Watch(turn.number, from_event, reply);
        let start = self.request(principal, &key, ANSWER_TIMEOUT, make).await?;
        Ok(self.stream(principal, key, turn.number, start))
    }

    pub fn snapshot(&self) -> Snapshot {
        let shared = &self.node.shared;
        let (queued, in_flight, watchers) = shared.table.totals();
        Snapshot {
            live: shared.table.len(),
            history_bytes: shared.memory.reserved(),
            started: shared.counters.started.load(Ordering::Relaxed),
            passivated: shared.counters.passivated.load(Ordering::Relaxed),
            failed: shared.counters.failed.load(Ordering::Relaxed),
            turns_started: shared.counters.turns_started.load(Ordering::Relaxed),
            turns_completed: shared.counters.turns_completed.load(Ordering::Relaxed),
            turns_failed: shared.counters.turns_failed.load(Ordering::Relaxed),
            taken_over: shared.counters.taken_over.load(Ordering::Relaxed),
            sweeps: shared.counters.sweeps.load(Ordering::Relaxed),
            tasks: shared.tracker.len(),
            working: shared.table.busy_count(),
            queued,
            in_flight,
            watchers,
            draining: shared.is_draining(),
            busy: shared.table.busy(SNAPSHOT_CONVERSATIONS_MAX),
        }
    }

    /// Refuses new work with `DRAINING`, waits for running turns until the deadline, and then stops. Another node ends
    /// the remaining turns as failed and retriable. Turns that wait for decisions are not affected.
    pub async fn drain(&self, deadline: Duration) {
        let shared = &self.node.shared;
        shared.start_draining();
        for actor in shared.table.all() {
            let _ = actor.send_message(Msg::Drain);
        }
        let all_idle = async {
            loop {
                let idled = shared.idled.notified();
                // After a stop, no conversation becomes idle.
                if !shared.table.any_busy() || shared.token.is_cancelled() {
                    return;
                }
                let _ = tokio::time::timeout(Duration::from_millis(100), idled).await;
            }
        };
        if tokio::time::timeout(deadline, all_idle).await.is_err() {
            tracing::warn!("stopped running turns; another node ends them as failed and retriable");
        }
        // The publishers publish the ends of the last turns.
        shared.publishers.close();
        let _ = tokio::time::timeout(PUBLISH_WAIT, shared.publishers.wait()).await;
        self.stop().await;
    }

    /// Stops all conversations immediately, as if the process died. The next owner ends the running turns.
    pub async fn stop(&self) {
        let shared = &self.node.shared;
        shared.start_draining();
        shared.token.cancel();
        if let Err(error) = self.node.supervisor.stop_and_wait(None, Some(STOP_TIMEOUT)).await {
            tracing::warn!(%error, "the supervisor of conversations did not stop in time");
        }
        shared.tracker.close();
        if tokio::time::timeout(STOP_TIMEOUT, shared.tracker.wait()).await.is_err() {
            tracing::warn!(tasks = shared.tracker.len(), "tasks of conversations did not end in time");
        }
    }

    /// Returns true if this node has work on the thread. During a drain, another node may take over other threads.
    pub fn is_thread_active(&self, org: &OrgId, thread: &ThreadId) -> bool {
        self.node.shared.table.is_busy(&(org.clone(), thread.clone()))
    }

    /// Returns true if the conversation of a thread is in memory.
    #[cfg(test)]
    pub(crate) fn is_live(&self, key: &Key) -> bool {
        self.node.shared.table.find(key).is_some()
    }

    /// Makes the conversation of a thread panic.
    #[cfg(test)]
    pub(crate) fn break_conversation(&self, key: &Key) {
        let actor = self.node.shared.table.find(key).unwrap();
        actor.send_message(Msg::Break).unwrap();
    }

    fn may_start_work(&self, principal: &Principal) -> Result<()> {
        prepare::require_member(principal)?;
        if self.node.shared.is_draining() { Err(draining()) } else { Ok(()) }
    }

    fn stream(&self, principal: &Principal, key: Key, turn: u32, start: StreamStart) -> EventStream {
        let (node, principal) = (Arc::downgrade(&self.node), principal.clone());
        let rejoin: Rejoin = Box::new(move |from| {
            let (node, principal, key) = (node.clone(), principal.clone(), key.clone());
            Box::pin(async move {
                let node = node.upgrade().ok_or_else(draining)?;
                let make = |reply| Request::Watch(turn, from, reply);
                Self { node }.request(&principal, &key, ANSWER_TIMEOUT, make).await
            })
        });
        follow(start, rejoin).boxed()
    }

    /// Sends a request to the conversation of a thread. If the conversation stops before it answers, the request is
    /// sent again, because every request is idempotent.
    async fn request<T>(
        &self,
        principal: &Principal,
        key: &Key,
        timeout: Duration,
        make: impl Fn(Reply<T>) -> Request,
    ) -> Result<T> {
        let request = async {
            for _ in 0..ADMIT_ATTEMPTS_MAX {
                let (actor, permit) = self.admit(key).await?;
                let (reply, answer) = oneshot::channel();
                let (principal, trace) = (principal.clone(), TraceContext::current());
                let message = Msg::Request { principal, request: make(reply), permit, trace };
                if actor.send_message(message).is_ok()
                    && let Ok(answer) = answer.await
                {
                    return answer;
                }
                if self.node.shared.token.is_cancelled() {
                    return Err(draining());
                }
                tokio::task::yield_now().await;
            }
            let message = format!("the conversation restarted {ADMIT_ATTEMPTS_MAX} times during the request; retry");
            Err(Error::unavailable(Reason::Overloaded, message).retry_after(Duration::from_secs(1)))
        };
        let timed_out = |_| Error::unavailable(Reason::StoreUnavailable, "the conversation did not answer in time");
        tokio::time::timeout(timeout, request).await.map_err(timed_out)?
    }

    /// Returns the conversation of a thread, started if necessary, and a permit for the request.
    async fn admit(&self, key: &(OrgId, ThreadId)) -> Result<(ActorRef<Msg>, OwnedSemaphorePermit)> {
        let mut full = None;
        for _ in 0..ADMIT_ATTEMPTS_MAX {
            if let Some(admitted) = self.node.shared.table.admit(key, millis_since(self.node.started_at))? {
                return Ok(admitted);
            }
            let (reply, found) = oneshot::channel();
            let find = SupervisorMsg::Start(key.clone(), reply);
            self.node.supervisor.send_message(find).map_err(|_| draining())?;
            match found.await.map_err(|_| draining())? {
                Ok(()) => {}
                // Idle conversations are being evicted.
                Err(error) if error.reason == Reason::Overloaded => {
                    full = Some(error);
                    tokio::time::sleep(MEMORY_WAIT / ADMIT_ATTEMPTS_MAX).await;
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = full {
            return Err(error);
        }
        let message = "the conversation could not be started; retry";
        Err(Error::unavailable(Reason::Overloaded, message).retry_after(Duration::from_secs(1)))
    }
}
