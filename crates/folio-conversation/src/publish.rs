//! Publishes the state and the events of the newest turn to other nodes, in stores that may lose their data at any
//! time.
//!
//! A [`Publisher`] is a reader of the turn's events: the bounded buffer is its queue, it takes all events that are
//! ready, and it receives a snapshot if it is too slow, like any other reader. The actor never waits for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_history::event::Event;
use folio_history::thread::Phase;
use folio_storage::{EventsAppended, SharedTurn, SharedTurnStore, TurnEventStore};
use folio_types::Result;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::actor::Msg;
use crate::events::{Rejoin, follow};
use crate::work::TaskContext;

/// Maximum number of events per write.
const BATCH: usize = 64;
/// Minimum time between two writes of events, unless the first write was full. Watchers on other nodes receive the
/// deltas of this time together.
const WRITE_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum attempts while the store is unavailable. Afterwards, this publication is skipped.
const ATTEMPTS_MAX: u32 = 6;

/// Stores in which nodes publish turn states and events.
#[derive(Clone)]
pub struct SharedTurnStores {
    pub turns: Arc<dyn SharedTurnStore>,
    /// None: no other process reads events.
    pub events: Option<Arc<dyn TurnEventStore>>,
}

/// Publishes one turn until it ends or waits.
pub(crate) struct Publisher {
    outbox: Arc<Outbox>,
    turn: u32,
}

/// Latest-value channel of the state that is not published yet.
#[derive(Default)]
struct Outbox {
    inner: Mutex<PendingState>,
    changed: Notify,
}

#[derive(Default)]
struct PendingState {
    state: Option<SharedTurn>,
    /// True if the reader has stopped.
    closed: bool,
}

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the pending state. Returns the new state if the reader has stopped.
    fn put(&self, state: SharedTurn) -> Option<SharedTurn> {
        let mut pending = self.lock();
        if pending.closed {
            return Some(state);
        }
        pending.state = Some(state);
        self.changed.notify_one();
        None
    }

    fn take(&self) -> Option<SharedTurn> {
        self.lock().state.take()
    }

    /// Stops the reader unless a state is pending. Returns true if the reader stopped.
    fn close(&self) -> bool {
        let mut pending = self.lock();
        pending.closed = pending.state.is_none();
        pending.closed
    }
}

impl Publisher {
    /// Starts to publish this state, and the events of the turn with numbers above `published`.
    pub(crate) fn start(
        work: &TaskContext,
        shared_stores: SharedTurnStores,
        state: SharedTurn,
        may_be_listed: bool,
        published: Arc<AtomicU64>,
    ) -> Self {
        let (turn, outbox) = (state.turn.number, Arc::new(Outbox::default()));
        let (work, newest_state) = (work.clone(), state.clone());
        let task = PublisherTask {
            work: work.clone(),
            shared_stores,
            newest_state,
            may_be_listed,
            published,
            outbox: outbox.clone(),
        };
        let _ = outbox.put(state);
        work.spawn(work.shared.publishers.track_future(task.run()));
        Self { outbox, turn }
    }

    /// Publishes a state. Returns the state if it belongs to another turn or the publisher has stopped.
    pub(crate) fn publish(&self, state: SharedTurn) -> Option<SharedTurn> {
        if state.turn.number == self.turn { self.outbox.put(state) } else { Some(state) }
    }
}

/// Waits until `at`, then returns all ready events, or waits for the next one. None: the stream has ended.
async fn next_chunk(at: Instant, events: &mut Events) -> Option<Vec<Result<Event>>> {
    tokio::time::sleep_until(at).await;
    events.next().await
}

struct PublisherTask {
    work: TaskContext,
    shared_stores: SharedTurnStores,
    newest_state: SharedTurn,
    /// True if the shared store may list the turn as waiting for decisions.
    may_be_listed: bool,
    /// Number of the last published event.
    published: Arc<AtomicU64>,
    outbox: Arc<Outbox>,
}

type Events = BoxStream<'static, Vec<Result<Event>>>;

impl PublisherTask {
    async fn run(mut self) {
        let mut events = self.events(self.published.load(Ordering::Relaxed).saturating_add(1)).await;
        let (mut restarts, mut next_write) = (0, Instant::now());
        loop {
            if let Some(state) = self.outbox.take() {
                self.newest_state = state;
                self.publish().await;
                if events.is_none() {
                    // The turn continued after the event that closed the stream.
                    events = self.events(self.published.load(Ordering::Relaxed).saturating_add(1)).await;
                }
                continue;
            }
            let Some(stream) = &mut events else {
                if self.outbox.close() {
                    return;
                }
                continue;
            };
            // No task waits with a turn that waits for child turns. Its next state starts another publisher.
            if self.newest_state.phase == Some(Phase::AwaitingChildren) {
                match stream.next().now_or_never().flatten() {
                    Some(chunk) => {
                        let chunk: Vec<Event> = chunk.into_iter().filter_map(Result::ok).collect();
                        let _ = self.append(&chunk).await;
                    }
                    None => events = None,
                }
                continue;
            }
            tokio::select! {
                biased;
                () = self.outbox.changed.notified() => {}
                chunk = next_chunk(next_write, stream) => match chunk {
                    None => events = None,
                    Some(chunk) => {
                        let is_full = chunk.len() == BATCH;
                        let chunk: Vec<Event> = chunk.into_iter().filter_map(Result::ok).collect();
                        if !is_full && !chunk.last().is_some_and(|event| event.kind.is_closing()) {
                            next_write = Instant::now() + WRITE_INTERVAL;
                        }
                        match self.append(&chunk).await {
                            AppendOutcome::NeedsSnapshot if restarts < ATTEMPTS_MAX => {
                                restarts += 1;
                                events = self.events(1).await;
                            }
                            AppendOutcome::NeedsSnapshot => events = None,
                            AppendOutcome::Done => restarts = 0,
                        }
                    }
                },
            }
        }
    }

    /// Returns the turn's events from this number up to the next closing event. None: events are not published, or the
    /// conversation has stopped.
    async fn events(&self, from: u64) -> Option<Events> {
        let (actor, turn) = (self.work.actor.clone(), self.newest_state.turn.number);
        let rejoin: Rejoin = Box::new(move |from| {
            let actor = actor.clone();
            Box::pin(async move {
                let (reply, following) = oneshot::channel();
                let _ = actor.send_message(Msg::Follow { turn, from, reply });
                following.await.map_err(|_| crate::events::stopped())?
            })
        });
        self.shared_stores.events.as_ref()?;
        let start = rejoin(from).await.ok()?;
        Some(follow(start, rejoin).ready_chunks(BATCH).boxed())
    }

    async fn publish(&mut self) {
        let is_listed = self.newest_state.is_waiting();
        if !is_listed && !self.may_be_listed {
            return;
        }
        self.may_be_listed = is_listed;
        if let Err(error) = self.work.retry(ATTEMPTS_MAX, || self.shared_stores.turns.publish(&self.newest_state)).await
        {
            tracing::warn!(turn = %self.newest_state.turn, %error, "cannot publish the state of a turn");
        }
    }

    async fn append(&self, events: &[Event]) -> AppendOutcome {
        let (Some(last), Some(store)) = (events.last(), &self.shared_stores.events) else { return AppendOutcome::Done };
        let SharedTurn { org, turn, node, epoch, .. } = &self.newest_state;
        match self.work.retry(ATTEMPTS_MAX, || store.append(org, turn, node, *epoch, events)).await {
            Ok(EventsAppended::Done) => {
                self.published.fetch_max(last.number, Ordering::Relaxed);
                AppendOutcome::Done
            }
            Ok(EventsAppended::NeedsSnapshot) => AppendOutcome::NeedsSnapshot,
            Ok(EventsAppended::Fenced { epoch: newer }) => {
                tracing::info!(%turn, epoch, newer, "another owner publishes the events of a turn");
                let _ = self.work.actor.send_message(Msg::Replaced { epoch: newer });
                AppendOutcome::Done
            }
            // The next published events follow a gap, so the store requires a snapshot first.
            Err(error) => {
                tracing::warn!(%turn, %error, "cannot publish events of a turn");
                AppendOutcome::Done
            }
        }
    }
}

enum AppendOutcome {
    /// The events were published or skipped.
    Done,
    /// The store requires a snapshot before further events.
    NeedsSnapshot,
}
