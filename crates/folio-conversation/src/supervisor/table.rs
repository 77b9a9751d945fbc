//! The conversations in memory, and admission to each.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_types::{Error, OrgId, Reason, Result, ThreadId};
use ractor::{ActorId, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::actor::Msg;
use crate::snapshot::{ActorPhase, ConversationView};

/// A thread of an organization.
pub(crate) type Key = (OrgId, ThreadId);

/// Published activity of a conversation.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    phase: AtomicU8,
    busy: AtomicBool,
    queued: AtomicUsize,
    watchers: AtomicUsize,
    /// Size of its history in bytes.
    bytes: AtomicU64,
    /// Time of the last request, in milliseconds since the start of this incarnation.
    used: AtomicU64,
}

impl Vitals {
    pub(crate) fn show(&self, phase: ActorPhase, busy: bool, queued: usize, watchers: usize, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.busy.store(busy, Ordering::SeqCst);
        self.queued.store(queued, Ordering::Relaxed);
        self.watchers.store(watchers, Ordering::Relaxed);
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::SeqCst)
    }

    pub(crate) fn touch(&self, now: u64) {
        self.used.store(now, Ordering::Relaxed);
    }

    fn phase(&self) -> ActorPhase {
        let phase = self.phase.load(Ordering::Relaxed);
        [ActorPhase::Storing, ActorPhase::Model, ActorPhase::Tools]
            .into_iter()
            .find(|known| *known as u8 == phase)
            .unwrap_or_default()
    }
}

/// A conversation in memory.
#[derive(Clone)]
pub(crate) struct Seat {
    pub(crate) actor: ActorRef<Msg>,
    pub(crate) vitals: Arc<Vitals>,
    slots: Arc<Semaphore>,
    slots_max: usize,
}

impl Seat {
    pub(crate) fn new(actor: ActorRef<Msg>, vitals: Arc<Vitals>, slots_max: usize) -> Self {
        Self { actor, vitals, slots: Arc::new(Semaphore::new(slots_max)), slots_max }
    }

    fn in_flight(&self) -> usize {
        self.slots_max.saturating_sub(self.slots.available_permits())
    }

    fn is_busy(&self) -> bool {
        self.vitals.is_busy() || self.in_flight() > 0
    }

    /// Acquires a permit for a request in flight. Mailboxes themselves are unbounded.
    fn admit(&self) -> Result<OwnedSemaphorePermit> {
        self.slots.clone().try_acquire_owned().map_err(|_| {
            Error::exhausted(Reason::Overloaded, "the conversation has the maximum number of requests in flight")
                .retry_after(Duration::from_secs(1))
        })
    }
}

/// The conversations in memory.
#[derive(Default)]
pub(crate) struct Table {
    seats: Mutex<HashMap<Key, Seat>>,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the conversation of a thread with a permit for a request, if it is in memory.
    pub(crate) fn admit(&self, key: &Key, now: u64) -> Result<Option<(ActorRef<Msg>, OwnedSemaphorePermit)>> {
        let seats = self.lock();
        let Some(seat) = seats.get(key) else { return Ok(None) };
        seat.vitals.touch(now);
        Ok(Some((seat.actor.clone(), seat.admit()?)))
    }

    /// Returns the conversation of a thread, if it is in memory.
    pub(crate) fn find(&self, key: &Key) -> Option<ActorRef<Msg>> {
        self.lock().get(key).map(|seat| seat.actor.clone())
    }

    pub(crate) fn insert(&self, key: Key, seat: Seat) {
        self.lock().insert(key, seat);
    }

    /// Removes a conversation if this actor still runs it.
    pub(crate) fn remove(&self, key: &Key, actor: ActorId) {
        let mut seats = self.lock();
        if seats.get(key).is_some_and(|seat| seat.actor.get_id() == actor) {
            seats.remove(key);
        }
    }

    /// Removes a conversation if it has no request in flight. Later requests start another actor.
    pub(crate) fn leave(&self, key: &Key, actor: ActorId) -> bool {
        let mut seats = self.lock();
        match seats.get(key) {
            Some(seat) if seat.actor.get_id() == actor && seat.in_flight() == 0 => {
                seats.remove(key);
                true
            }
            Some(seat) if seat.actor.get_id() == actor => false,
            _ => true,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns conversations without work and without use since `before`, least recently used first, with the size of
    /// their histories (0: evicted).
    pub(crate) fn idle(&self, before: u64) -> Vec<(u64, ActorRef<Msg>)> {
        let mut idle: Vec<(u64, (u64, ActorRef<Msg>))> = self
            .lock()
            .values()
            .filter(|seat| !seat.is_busy())
            .map(|seat| (&seat.vitals, seat.actor.clone()))
            .map(|(vitals, actor)| (vitals.used.load(Ordering::Relaxed), (vitals.bytes.load(Ordering::Relaxed), actor)))
            .filter(|(used, _)| *used <= before)
            .collect();
        idle.sort_by_key(|(used, _)| *used);
        idle.into_iter().map(|(_, idle)| idle).collect()
    }

    pub(crate) fn all(&self) -> Vec<ActorRef<Msg>> {
        self.lock().values().map(|seat| seat.actor.clone()).collect()
    }

    /// Returns true if any conversation has work.
    pub(crate) fn any_busy(&self) -> bool {
        self.lock().values().any(Seat::is_busy)
    }

    /// Returns the number of conversations with work.
    pub(crate) fn busy_count(&self) -> usize {
        self.lock().values().filter(|seat| seat.is_busy()).count()
    }

    /// Returns the totals over all conversations: queued messages, requests in flight, and watchers.
    pub(crate) fn totals(&self) -> (usize, usize, usize) {
        self.lock().values().fold((0, 0, 0), |(queued, in_flight, watchers), seat| {
            let vitals = &seat.vitals;
            (
                queued + vitals.queued.load(Ordering::Relaxed),
                in_flight + seat.in_flight(),
                watchers + vitals.watchers.load(Ordering::Relaxed),
            )
        })
    }

    /// Returns true if the conversation of a thread is in memory and has work.
    pub(crate) fn is_busy(&self, key: &Key) -> bool {
        self.lock().get(key).is_some_and(Seat::is_busy)
    }

    /// Returns the conversations with work, at most `limit`.
    pub(crate) fn busy(&self, limit: usize) -> Vec<ConversationView> {
        let seats = self.lock();
        let busy = seats.iter().filter(|(_, seat)| seat.is_busy());
        busy.take(limit)
            .map(|((_, thread), seat)| ConversationView {
                thread: thread.clone(),
                phase: seat.vitals.phase(),
                in_flight: seat.in_flight(),
                queued: seat.vitals.queued.load(Ordering::Relaxed),
                watchers: seat.vitals.watchers.load(Ordering::Relaxed),
            })
            .collect()
    }
}
