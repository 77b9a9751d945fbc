//! The public handle of a node's conversations.

mod threads;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use folio_history::event::TurnView;
use folio_llm::Models;
use folio_metering::SharedMeter;
use folio_quotas::Slots;
use folio_storage::Stores;
use folio_tools::Registry;
use folio_trace::TraceContext;
use folio_types::{Environment, Error, Incarnation, OrgId, Principal, Reason, Result, ThreadId, TurnId};
use ractor::{Actor, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::actor::{Msg, Reply, Request};
use crate::events::{Following, Refollow, follow};
use crate::failpoint::Failpoints;
use crate::options::Options;
use crate::owners::Owners;
use crate::prepare;
use crate::publish::SharedTurnStores;
use crate::shared::{Shared, draining};
use crate::snapshot::Snapshot;
use crate::stream::EventStream;
use crate::supervisor::{Key, Supervisor, SupervisorMsg, SupervisorStart, age};
use folio_history::command::ApproveAnswer;
use folio_history::command::{ApproveCommand, ChatCommand};

/// Maximum number of lookups of a conversation that leaves memory during a request.
const LOOKUPS: u32 = 6;
/// Conversations that a snapshot names.
const SHOWN: usize = 1_000;
/// Time limit of a request that involves no model and no tool.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Time limit of a request that waits for a turn; rounds, tools and models have shorter bounds.
const TURN_WITHIN: Duration = Duration::from_secs(2 * 60 * 60);
/// How long a request waits for memory while idle conversations are evicted.
const MEMORY_WAIT: Duration = Duration::from_millis(300);
/// How long the publishers of ended turns may take while the node drains.
const PUBLISH_WAIT: Duration = Duration::from_secs(2);
/// How long tasks may take to clean up after they were stopped.
const TIDY_WITHIN: Duration = Duration::from_secs(5);

/// The components that conversations use.
#[derive(Clone)]
pub struct Dependencies {
    /// The stores.
    pub stores: Stores,
    /// The models.
    pub models: Arc<dyn Models>,
    /// The meter that sees every model call.
    pub meter: SharedMeter,
    /// The slots of turns that run.
    pub turn_slots: Slots,
    /// The tools and profiles.
    pub tools: Arc<Registry>,
    /// Time and randomness.
    pub environment: Arc<dyn Environment>,
    /// The incarnation that the headers of this node's threads name as their owner.
    pub incarnation: Incarnation,
    /// Liveness of the other incarnations.
    pub owners: Arc<dyn Owners>,
    /// Stores in which turns are published to other nodes. None: there are no other nodes.
    pub shared_turns: Option<SharedTurnStores>,
    /// Points at which a test stops or kills the process. Default: none.
    pub failpoints: Failpoints,
}

/// The conversations of this node. Cheap to clone.
///
/// Every method takes the principal, and nothing of another organization, or of another user (unless the principal is an
/// admin), is seen or touched: it is `NOT_FOUND`. A viewer may only read.
#[derive(Clone)]
pub struct Conversations {
    node: Arc<Node>,
}

/// State of the handles. Dropping the last handle stops everything.
struct Node {
    shared: Arc<Shared>,
    supervisor: ActorRef<SupervisorMsg>,
    born: Instant,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.shared.token.cancel();
        self.supervisor.stop(None);
    }
}

impl Conversations {
    /// Starts the supervisor and the first sweep, which ends what an earlier life of this process left running.
    pub async fn start(dependencies: Dependencies, options: Options) -> Result<Self> {
        let shared = Arc::new(Shared::new(dependencies, options));
        let born = Instant::now();
        let start = SupervisorStart { shared: shared.clone(), born };
        let (supervisor, _joined) = Actor::spawn(None, Supervisor, start)
            .await
            .map_err(|error| Error::internal(format!("the supervisor of conversations cannot be started: {error}")))?;
        Ok(Self { node: Arc::new(Node { shared, supervisor, born }) })
    }

    /// Starts a turn (or joins, resumes or repeats the one of this request id) and follows it. Comes back once the turn
    /// is accepted: an error means that it was not. Dropping the future before drops a message that waits in the queue.
    pub async fn chat(&self, principal: &Principal, command: ChatCommand) -> Result<EventStream> {
        self.may_begin(principal)?;
        let shared = &self.node.shared;
        let mut ask = prepare::prepare_chat(shared, &principal.org, command).await?;
        let thread = match &ask.command.thread {
            Some(thread) => thread.clone(),
            None => {
                let new = prepare::thread_of_chat(shared, principal, &ask)?;
                ask.new.insert(Arc::new(new)).id.clone()
            }
        };
        let key = (principal.org.clone(), thread);
        let make = |reply| Request::Chat(Box::new(ask.clone()), reply);
        let start = self.ask(principal, &key, TURN_WITHIN, make).await?;
        let turn = start.turn;
        Ok(self.stream(principal, key, turn, start))
    }

    /// Records decisions; where the round is decided then, carries it out, makes one model call and answers. Dropping the
    /// future does not stop that.
    pub async fn approve(&self, principal: &Principal, command: ApproveCommand) -> Result<ApproveAnswer> {
        self.may_begin(principal)?;
        let key = (principal.org.clone(), command.turn.thread.clone());
        let make = |reply| Request::Approve(Box::new(command.clone()), reply);
        self.ask(principal, &key, TURN_WITHIN, make).await
    }

    /// Resumes a turn that failed retriably, and follows it. A running turn is joined, so a repeated request needs no
    /// request id. Errors: `QUOTA_EXCEEDED` if the organization's limit of concurrent turns is reached; nothing changes
    /// then.
    pub async fn resume(&self, principal: &Principal, turn: &TurnId) -> Result<EventStream> {
        self.may_begin(principal)?;
        let key = (principal.org.clone(), turn.thread.clone());
        let make = |reply| Request::Resume(turn.number, reply);
        let start = self.ask(principal, &key, ANSWER_WITHIN, make).await?;
        Ok(self.stream(principal, key, turn.number, start))
    }

    /// Ends a turn: its model request is stopped at once, calls that did not run never do. Gives the turn as it ended; one
    /// that had ended before is given as it is, so that a repetition needs no request id to be one.
    pub async fn cancel(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        prepare::may_change(principal)?;
        let key = (principal.org.clone(), turn.thread.clone());
        self.ask(principal, &key, ANSWER_WITHIN, |reply| Request::Cancel(turn.number, reply)).await
    }

    /// Returns the current state of a turn.
    pub async fn get_turn(&self, principal: &Principal, turn: &TurnId) -> Result<TurnView> {
        let key = (principal.org.clone(), turn.thread.clone());
        self.ask(principal, &key, ANSWER_WITHIN, |reply| Request::GetTurn(turn.number, reply)).await
    }

    /// The open turn of a thread as it is now, or none.
    pub async fn open_turn(&self, principal: &Principal, thread: &ThreadId) -> Result<Option<TurnView>> {
        let key = (principal.org.clone(), thread.clone());
        self.ask(principal, &key, ANSWER_WITHIN, Request::OpenTurn).await
    }

    /// Follows the events of a turn from a number (0 and 1: from the first), or from a snapshot if they are
    /// unavailable. The stream ends with the closing event.
    pub async fn watch(&self, principal: &Principal, turn: &TurnId, from_event: u64) -> Result<EventStream> {
        let key = (principal.org.clone(), turn.thread.clone());
        let make = |reply| Request::Watch(turn.number, from_event, reply);
        let start = self.ask(principal, &key, ANSWER_WITHIN, make).await?;
        Ok(self.stream(principal, key, turn.number, start))
    }

    /// Returns the observable state of the conversations.
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
            busy: shared.table.busy(SHOWN),
        }
    }

    /// Refuses new work (`DRAINING`), lets running turns end until the deadline, then stops what is left: those turns are
    /// found ownerless and end failed, retriable. Waiting turns lose nothing.
    pub async fn drain(&self, deadline: Duration) {
        let shared = &self.node.shared;
        shared.start_draining();
        for actor in shared.table.all() {
            let _ = actor.send_message(Msg::Drain);
        }
        let resting = async {
            loop {
                let rested = shared.rested.notified();
                // Stopped conversations do not become idle.
                if !shared.table.any_busy() || shared.token.is_cancelled() {
                    return;
                }
                let _ = tokio::time::timeout(Duration::from_millis(100), rested).await;
            }
        };
        if tokio::time::timeout(deadline, resting).await.is_err() {
            tracing::warn!("turns that still run are stopped; they end failed, retriable, when they are found");
        }
        // The last ends are published.
        shared.publishers.close();
        let _ = tokio::time::timeout(PUBLISH_WAIT, shared.publishers.wait()).await;
        self.stop().await;
    }

    /// Stops everything where it is, as if the process died; what runs is found ownerless by the next life.
    pub async fn stop(&self) {
        let shared = &self.node.shared;
        shared.start_draining();
        shared.token.cancel();
        if let Err(error) = self.node.supervisor.stop_and_wait(None, Some(TIDY_WITHIN)).await {
            tracing::warn!(%error, "the supervisor of conversations did not stop in time");
        }
        shared.tracker.close();
        if tokio::time::timeout(TIDY_WITHIN, shared.tracker.wait()).await.is_err() {
            tracing::warn!(tasks = shared.tracker.len(), "tasks of conversations did not end in time");
        }
    }

    /// Whether this node still has work on a thread: once it drains, another node may take over what it has not.
    pub fn holds(&self, org: &OrgId, thread: &ThreadId) -> bool {
        self.node.shared.table.is_busy(&(org.clone(), thread.clone()))
    }

    /// Whether the conversation of a thread is in memory.
    #[cfg(test)]
    pub(crate) fn is_live(&self, key: &Key) -> bool {
        self.node.shared.table.find(key).is_some()
    }

    /// Breaks the conversation of a thread.
    #[cfg(test)]
    pub(crate) fn break_conversation(&self, key: &Key) {
        let actor = self.node.shared.table.find(key).unwrap();
        actor.send_message(Msg::Break).unwrap();
    }

    fn may_begin(&self, principal: &Principal) -> Result<()> {
        prepare::may_change(principal)?;
        if self.node.shared.is_draining() { Err(draining()) } else { Ok(()) }
    }

    fn stream(&self, principal: &Principal, key: Key, turn: u32, start: Following) -> EventStream {
        let (me, principal) = (Arc::downgrade(&self.node), principal.clone());
        let again: Refollow = Box::new(move |from| {
            let (me, principal, key) = (me.clone(), principal.clone(), key.clone());
            Box::pin(async move {
                let node = me.upgrade().ok_or_else(draining)?;
                let make = |reply| Request::Watch(turn, from, reply);
                Self { node }.ask(&principal, &key, ANSWER_WITHIN, make).await
            })
        });
        EventStream::new(follow(start, again))
    }

    /// Asks the conversation of a thread, and again where it left memory before it answered: every request may be repeated.
    async fn ask<T>(
        &self,
        principal: &Principal,
        key: &Key,
        within: Duration,
        make: impl Fn(Reply<T>) -> Request,
    ) -> Result<T> {
        let asked = async {
            for _ in 0..LOOKUPS {
                let (actor, permit) = self.admit(key).await?;
                let (reply, answer) = oneshot::channel();
                let (principal, trace) = (principal.clone(), TraceContext::current());
                let ask = Msg::Ask { principal, request: make(reply), permit, trace };
                if actor.send_message(ask).is_ok()
                    && let Ok(answer) = answer.await
                {
                    return answer;
                }
                if self.node.shared.token.is_cancelled() {
                    return Err(draining());
                }
                tokio::task::yield_now().await;
            }
            Err(Error::unavailable(Reason::Overloaded, "the conversation could not be reached")
                .retry_after(Duration::from_secs(1)))
        };
        let late = |_| Error::unavailable(Reason::StoreUnavailable, "the conversation did not answer in time");
        tokio::time::timeout(within, asked).await.map_err(late)?
    }

    /// The conversation of a thread, started where it is not in memory, with a place among its requests.
    async fn admit(&self, key: &(OrgId, ThreadId)) -> Result<(ActorRef<Msg>, OwnedSemaphorePermit)> {
        let mut full = None;
        for _ in 0..LOOKUPS {
            if let Some(admitted) = self.node.shared.table.admit(key, age(self.node.born))? {
                return Ok(admitted);
            }
            let (reply, found) = oneshot::channel();
            let find = SupervisorMsg::Find(key.clone(), reply);
            self.node.supervisor.send_message(find).map_err(|_| draining())?;
            match found.await.map_err(|_| draining())? {
                Ok(()) => {}
                // Idle conversations are being evicted.
                Err(error) if error.reason == Reason::Overloaded => {
                    full = Some(error);
                    tokio::time::sleep(MEMORY_WAIT / LOOKUPS).await;
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = full {
            return Err(error);
        }
        Err(Error::unavailable(Reason::Overloaded, "the conversation could not be started")
            .retry_after(Duration::from_secs(1)))
    }
}
