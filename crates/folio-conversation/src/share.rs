//! Telling the other nodes what an open turn does: its state and its events, in stores that may be lost at any time.
//!
//! A [`Teller`] is one more reader of the turn's events: the bounded buffer is its queue, it takes whatever is ready at
//! once, and where it falls too far behind it gets a snapshot like everybody else. The actor never waits for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_history::event::Event;
use folio_storage::{EventsAppended, SharedTurn, SharedTurnStore, TurnEventStore};
use folio_types::{Error, Result};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::sync::{Notify, oneshot};

use crate::actor::Msg;
use crate::events::{Refollow, follow};
use crate::work::{Backoff, Work};

/// Events that are told at once.
const BATCH: usize = 64;
/// How often something is told again where the store does not answer: then it is left out.
const TRIES: u32 = 6;

/// The stores in which the nodes tell each other of their turns.
#[derive(Clone)]
pub struct TurnShare {
    /// States.
    pub turns: Arc<dyn SharedTurnStore>,
    /// Events; none: nobody else reads them.
    pub events: Option<Arc<dyn TurnEventStore>>,
}

/// Tells of one turn until it rests.
pub(crate) struct Teller {
    mail: Arc<Mail>,
    turn: u32,
}

/// The newest state that is to be told.
#[derive(Default)]
struct Mail {
    inner: Mutex<Letter>,
    changed: Notify,
}

#[derive(Default)]
struct Letter {
    state: Option<SharedTurn>,
    /// Nobody reads it any more.
    closed: bool,
}

impl Mail {
    fn lock(&self) -> MutexGuard<'_, Letter> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place of what was not told yet; gives it back where nobody reads.
    fn put(&self, state: SharedTurn) -> Option<SharedTurn> {
        let mut letter = self.lock();
        if letter.closed {
            return Some(state);
        }
        letter.state = Some(state);
        self.changed.notify_one();
        None
    }

    fn take(&self) -> Option<SharedTurn> {
        self.lock().state.take()
    }

    /// Nobody reads from now on, unless something came.
    fn close(&self) -> bool {
        let mut letter = self.lock();
        letter.closed = letter.state.is_none();
        letter.closed
    }
}

impl Teller {
    /// Tells this state, and the events of the turn after number `told`.
    pub(crate) fn start(work: &Work, share: TurnShare, state: SharedTurn, told: Arc<AtomicU64>) -> Self {
        let (turn, mail) = (state.turn.number, Arc::new(Mail::default()));
        let telling = Telling { work: work.clone(), share, about: state.clone(), told, mail: mail.clone() };
        let _ = mail.put(state);
        work.spawn(work.shared.tellers.track_future(telling.run()));
        Self { mail, turn }
    }

    /// Tells a state of this turn; gives it back where that is for another teller.
    pub(crate) fn tell(&self, state: SharedTurn) -> Option<SharedTurn> {
        if state.turn.number == self.turn { self.mail.put(state) } else { Some(state) }
    }
}

struct Telling {
    work: Work,
    share: TurnShare,
    /// The state that was told last.
    about: SharedTurn,
    /// The number of the last event that was told.
    told: Arc<AtomicU64>,
    mail: Arc<Mail>,
}

type Events = BoxStream<'static, Vec<Result<Event>>>;

impl Telling {
    async fn run(mut self) {
        let mut events = self.events(self.told.load(Ordering::Relaxed).saturating_add(1)).await;
        let mut from_the_start = 0;
        loop {
            if let Some(state) = self.mail.take() {
                self.about = state;
                self.publish().await;
                continue;
            }
            let Some(stream) = &mut events else {
                if self.mail.close() {
                    return;
                }
                continue;
            };
            tokio::select! {
                biased;
                () = self.mail.changed.notified() => {}
                chunk = stream.next() => match chunk {
                    None => events = None,
                    Some(chunk) => {
                        let chunk: Vec<Event> = chunk.into_iter().filter_map(Result::ok).collect();
                        match self.append(&chunk).await {
                            Told::FromTheStart if from_the_start < TRIES => {
                                from_the_start += 1;
                                events = self.events(1).await;
                            }
                            Told::FromTheStart => events = None,
                            Told::Done => from_the_start = 0,
                        }
                    }
                },
            }
        }
    }

    /// The events of the turn from this number on, up to its next closing event; none where the conversation has left.
    async fn events(&self, from: u64) -> Option<Events> {
        let (actor, turn) = (self.work.actor.clone(), self.about.turn.number);
        let again: Refollow = Box::new(move |from| {
            let actor = actor.clone();
            Box::pin(async move {
                let (reply, following) = oneshot::channel();
                let _ = actor.send_message(Msg::Follow { turn, from, reply });
                following.await.map_err(|_| crate::events::stopped())?
            })
        });
        self.share.events.as_ref()?;
        let start = again(from).await.ok()?;
        Some(follow(start, again).ready_chunks(BATCH).boxed())
    }

    async fn publish(&self) {
        if let Err(error) = self.in_tries(|| self.share.turns.publish(&self.about)).await {
            tracing::warn!(turn = %self.about.turn, %error, "the state of a turn could not be told");
        }
    }

    async fn append(&self, events: &[Event]) -> Told {
        let (Some(last), Some(store)) = (events.last(), &self.share.events) else { return Told::Done };
        let SharedTurn { org, turn, owner, epoch, .. } = &self.about;
        match self.in_tries(|| store.append(org, turn, owner, *epoch, events)).await {
            Ok(EventsAppended::Done) => {
                self.told.fetch_max(last.number, Ordering::Relaxed);
                Told::Done
            }
            Ok(EventsAppended::NeedsSnapshot) => Told::FromTheStart,
            Ok(EventsAppended::Replaced { epoch: newer }) => {
                tracing::info!(%turn, epoch, newer, "the events of a turn are another owner's");
                let _ = self.work.actor.send_message(Msg::Replaced { epoch: newer });
                Told::Done
            }
            // What follows leaves a gap, and begins with a snapshot then.
            Err(error) => {
                tracing::warn!(%turn, %error, "events of a turn could not be told");
                Told::Done
            }
        }
    }

    /// Tries a few times, while the turn goes on.
    async fn in_tries<T, F>(&self, ask: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut backoff = Backoff::new(&self.work.shared);
        let mut last = Error::internal("nothing was tried");
        for _ in 0..TRIES {
            match tokio::time::timeout(self.work.shared.options.store_timeout, ask()).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(error)) => last = error,
                Err(_) => last = Error::internal("no answer in time"),
            }
            backoff.pause().await;
        }
        Err(last)
    }
}

/// What became of events.
enum Told {
    /// They are there, or left out.
    Done,
    /// The store lacks what came before.
    FromTheStart,
}
