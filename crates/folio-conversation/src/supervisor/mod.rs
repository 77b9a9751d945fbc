//! The supervisor of a node's conversations: starts and monitors them, restarts failed ones, evicts idle ones, and
//! periodically sweeps open turns and expired threads.

mod memory_budget;
mod stop_reason;
mod sweep;
mod table;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use folio_types::{Error, Reason, Result};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::actor::{ConversationActor, Msg, Start};
use crate::shared::Shared;
pub(crate) use memory_budget::{BudgetReservation, MEMORY_WAIT, MemoryBudget};
pub(crate) use stop_reason::StopReason;
pub(crate) use sweep::{CHILDREN_CHECK_SWEEPS, WaitingThreads};
pub(crate) use table::{Activity, Key, ResidentConversation, Table};

/// Maximum number of conversations that are evicted to start another one.
const EVICTIONS_MAX: usize = 64;
/// Time for evicted conversations to stop before others are evicted.
const EVICTION_PAUSE: Duration = Duration::from_millis(20);
/// First pause before a failed conversation is restarted. Each failure doubles the pause.
const RESTART_PAUSE_MIN: Duration = Duration::from_millis(100);
/// Maximum pause before a failed conversation is restarted.
const RESTART_PAUSE_MAX: Duration = Duration::from_secs(10);

pub(crate) enum SupervisorMsg {
    /// Start the conversation of a thread unless it is in memory.
    Start(Key, oneshot::Sender<Result<()>>),
    /// Evict conversations and histories that have been idle for a long time.
    Tick,
    /// Evict idle conversations to free memory.
    FreeMemory,
    /// Restart a failed conversation.
    Restart(Key),
}

pub(crate) struct Supervisor;

pub(crate) struct SupervisorState {
    shared: Arc<Shared>,
    /// Start of this run of the node process.
    started_at: Instant,
    /// Keys by actor, to identify stopped actors.
    keys: HashMap<ActorId, Key>,
    /// Consecutive failures by conversation.
    failures: HashMap<Key, u32>,
}

pub(crate) struct SupervisorStart {
    pub(crate) shared: Arc<Shared>,
    pub(crate) started_at: Instant,
}

/// Returns the milliseconds since `started_at`.
pub(crate) fn millis_since(started_at: Instant) -> u64 {
    u64::try_from(started_at.elapsed().as_millis()).unwrap_or(u64::MAX)
}

impl Actor for Supervisor {
    type Msg = SupervisorMsg;
    type State = SupervisorState;
    type Arguments = SupervisorStart;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        start: SupervisorStart,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let SupervisorStart { shared, started_at } = start;
        tick_until_stopped(&shared, &myself);
        free_memory_until_stopped(&shared, &myself);
        Ok(SupervisorState { shared, started_at, keys: HashMap::new(), failures: HashMap::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        message: SupervisorMsg,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMsg::Start(key, reply) => {
                let _ = reply.send(state.ensure_started(&myself, key).await);
            }
            SupervisorMsg::Tick => state.evict_expired(),
            SupervisorMsg::FreeMemory => state.free_memory(),
            SupervisorMsg::Restart(key) => {
                if let Ok(()) = state.ensure_started(&myself, key.clone()).await
                    && let Some(actor) = state.shared.table.find(&key)
                {
                    let _ = actor.send_message(Msg::Sweep);
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(cell, _, reason) => {
                state.handle_stopped(&myself, cell.get_id(), StopReason::of(reason.as_deref()));
            }
            SupervisionEvent::ActorFailed(cell, error) => {
                tracing::error!(%error, "a conversation failed");
                state.handle_stopped(&myself, cell.get_id(), StopReason::Failed);
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

/// Sweeps, and sends [`SupervisorMsg::Tick`], periodically. The first sweep is immediate, because an earlier run of the
/// process may have left turns running.
fn tick_until_stopped(shared: &Arc<Shared>, supervisor: &ActorRef<SupervisorMsg>) {
    let (shared, supervisor) = (shared.clone(), supervisor.clone());
    let tracker = shared.tracker.clone();
    let every = shared.options.sweep_interval;
    let token = shared.token.clone();
    tracker.spawn(async move {
        let sweeper = sweep::Sweeper::new(shared.clone(), supervisor.clone());
        loop {
            tokio::select! {
                () = token.cancelled() => return,
                () = sweeper.sweep() => {}
            }
            if supervisor.send_message(SupervisorMsg::Tick).is_err() {
                return;
            }
            tokio::select! {
                () = token.cancelled() => return,
                () = tokio::time::sleep(every) => {}
                () = shared.dependencies.owners.wait_for_node_loss() => sweeper.recheck_all(),
            }
        }
    });
}

/// Requests eviction whenever the memory budget is nearly exhausted.
fn free_memory_until_stopped(shared: &Arc<Shared>, supervisor: &ActorRef<SupervisorMsg>) {
    let (node, supervisor, token) = (shared.clone(), supervisor.clone(), shared.token.clone());
    shared.tracker.spawn(async move {
        let free_memory = async {
            loop {
                node.memory.low_memory().await;
                if supervisor.send_message(SupervisorMsg::FreeMemory).is_err() {
                    return;
                }
                tokio::time::sleep(EVICTION_PAUSE).await;
            }
        };
        tokio::select! {
            () = token.cancelled() => {}
            () = free_memory => {}
        }
    });
}

impl SupervisorState {
    /// Starts the conversation of a thread unless it is in memory. Fails with `OVERLOADED` at `live_max` conversations.
    async fn ensure_started(&mut self, myself: &ActorRef<SupervisorMsg>, key: Key) -> Result<()> {
        if self.shared.table.find(&key).is_some() {
            return Ok(());
        }
        if self.shared.table.len() >= self.shared.options.live_max {
            self.evict(u64::MAX, EVICTIONS_MAX);
            let live_max = self.shared.options.live_max;
            let message = format!("the node has {live_max} conversations in memory, which is the maximum; retry");
            return Err(Error::exhausted(Reason::Overloaded, message).retry_after(Duration::from_millis(200)));
        }
        let activity = Arc::new(Activity::default());
        activity.touch(millis_since(self.started_at));
        let start = Start { shared: self.shared.clone(), key: key.clone(), activity: activity.clone() };
        let (actor, _joined) = Actor::spawn_linked(None, ConversationActor, start, myself.get_cell())
            .await
            .map_err(|error| Error::internal(format!("cannot start a conversation: {error}")))?;
        self.shared.counters.started.fetch_add(1, Ordering::Relaxed);
        self.keys.insert(actor.get_id(), key.clone());
        let slots_max = self.shared.options.in_flight_per_conversation;
        self.shared.table.insert(key, ResidentConversation::new(actor, activity, slots_max));
        Ok(())
    }

    fn evict(&self, before: u64, limit: usize) {
        for (_, actor) in self.shared.table.idle(before).into_iter().take(limit) {
            let _ = actor.send_message(Msg::StopIfIdle);
        }
    }

    /// Evicts the least recently used conversations with a history until a quarter of the memory budget is free.
    fn free_memory(&self) {
        let mut excess = self.shared.memory.excess();
        for (bytes, actor) in self.shared.table.idle(u64::MAX).into_iter().filter(|(bytes, _)| *bytes > 0) {
            if excess == 0 {
                return;
            }
            excess = excess.saturating_sub(bytes);
            let _ = actor.send_message(Msg::StopIfIdle);
        }
    }

    /// Evicts conversations after `idle_timeout`, and their histories after `history_timeout`.
    fn evict_expired(&mut self) {
        let since = |span: Duration| {
            millis_since(self.started_at).checked_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
        };
        if let Some(before) = since(self.shared.options.idle_timeout) {
            self.evict(before, usize::MAX);
        }
        if let Some(before) = since(self.shared.options.history_timeout) {
            let with_history = self.shared.table.idle(before).into_iter().filter(|(bytes, _)| *bytes > 0);
            for (_, actor) in with_history {
                let _ = actor.send_message(Msg::DropHistory);
            }
        }
    }

    /// Removes a stopped conversation from the table. Restarts a failed one.
    fn handle_stopped(&mut self, myself: &ActorRef<SupervisorMsg>, actor: ActorId, reason: StopReason) {
        let Some(key) = self.keys.remove(&actor) else { return };
        self.shared.table.remove(&key, actor);
        self.shared.waiting.forget(&key);
        match reason {
            StopReason::Idle => {
                self.failures.remove(&key);
                self.shared.counters.passivated.fetch_add(1, Ordering::Relaxed);
            }
            StopReason::ThreadDeleted | StopReason::Stopped | StopReason::OwnedElsewhere => {
                self.failures.remove(&key);
            }
            StopReason::StoreFailed | StopReason::Failed => {
                self.shared.counters.failed.fetch_add(1, Ordering::Relaxed);
                self.restart_later(myself, key);
            }
        }
        self.shared.idled.notify_waiters();
    }

    /// Restarts a failed conversation, which may have an open turn without an owner, after a pause that each failure
    /// doubles.
    fn restart_later(&mut self, myself: &ActorRef<SupervisorMsg>, key: Key) {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let pause = RESTART_PAUSE_MIN.saturating_mul(1 << (*failures).min(8)).min(RESTART_PAUSE_MAX);
        *failures = failures.saturating_add(1);
        let (supervisor, token) = (myself.clone(), self.shared.token.clone());
        self.shared.tracker.spawn(async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = tokio::time::sleep(pause) => {
                    let _ = supervisor.send_message(SupervisorMsg::Restart(key));
                }
            }
        });
    }
}
