//! The conversations in memory, and the admission of requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_types::{Error, OrgId, Reason, Result, ThreadId};
use ractor::{ActorId, ActorRef};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::actor::Msg;
use crate::snapshot::{ActorPhase, ConversationView};

pub(crate) type Key = (OrgId, ThreadId);

/// Activity that a conversation publishes to other tasks.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    phase: AtomicU8,
    busy: AtomicBool,
    queued: AtomicUsize,
    watchers: AtomicUsize,
    /// Reserved bytes of the history and the buffered events.
    bytes: AtomicU64,
    /// Time of the last request, in milliseconds since the start of this incarnation.
    used: AtomicU64,
}

impl Activity {
    pub(crate) fn update(&self, phase: ActorPhase, busy: bool, queued: usize, watchers: usize, bytes: u64) {
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
            .find(|variant| *variant as u8 == phase)
            .unwrap_or_default()
    }
}

#[derive(Clone)]
pub(crate) struct ResidentConversation {
    pub(crate) actor: ActorRef<Msg>,
    pub(crate) activity: Arc<Activity>,
    slots: Arc<Semaphore>,
    slots_max: usize,
}

impl ResidentConversation {
    pub(crate) fn new(actor: ActorRef<Msg>, activity: Arc<Activity>, slots_max: usize) -> Self {
        Self { actor, activity, slots: Arc::new(Semaphore::new(slots_max)), slots_max }
    }

    fn in_flight(&self) -> usize {
        self.slots_max.saturating_sub(self.slots.available_permits())
    }

    fn is_busy(&self) -> bool {
        self.activity.is_busy() || self.in_flight() > 0
    }

    /// Acquires a permit for a request in flight. `OVERLOADED` if none is left, because mailboxes are unbounded.
    fn admit(&self) -> Result<OwnedSemaphorePermit> {
        self.slots.clone().try_acquire_owned().map_err(|_| {
            Error::exhausted(Reason::Overloaded, "the conversation has the maximum number of requests in flight")
                .retry_after(Duration::from_secs(1))
        })
    }
}

#[derive(Default)]
pub(crate) struct Table {
    conversations: Mutex<HashMap<Key, ResidentConversation>>,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, HashMap<Key, ResidentConversation>> {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the conversation of a thread with a permit for a request. None: it is not in memory.
    pub(crate) fn admit(&self, key: &Key, now: u64) -> Result<Option<(ActorRef<Msg>, OwnedSemaphorePermit)>> {
        let conversations = self.lock();
        let Some(conversation) = conversations.get(key) else { return Ok(None) };
        conversation.activity.touch(now);
        Ok(Some((conversation.actor.clone(), conversation.admit()?)))
    }

    /// None: the conversation of the thread is not in memory.
    pub(crate) fn find(&self, key: &Key) -> Option<ActorRef<Msg>> {
        self.lock().get(key).map(|conversation| conversation.actor.clone())
    }

    pub(crate) fn insert(&self, key: Key, conversation: ResidentConversation) {
        self.lock().insert(key, conversation);
    }

    /// Removes a conversation unless another actor runs it.
    pub(crate) fn remove(&self, key: &Key, actor: ActorId) {
        let mut conversations = self.lock();
        if conversations.get(key).is_some_and(|conversation| conversation.actor.get_id() == actor) {
            conversations.remove(key);
        }
    }

    /// Removes a conversation of this actor unless a request is in flight. Returns false if one is. Later requests
    /// start another actor.
    pub(crate) fn remove_if_idle(&self, key: &Key, actor: ActorId) -> bool {
        let mut conversations = self.lock();
        match conversations.get(key) {
            Some(conversation) if conversation.actor.get_id() == actor && conversation.in_flight() == 0 => {
                conversations.remove(key);
                true
            }
            Some(conversation) if conversation.actor.get_id() == actor => false,
            _ => true,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns idle conversations that were last used at or before `before`, least recently used first, with the bytes
    /// of their histories (0: no history in memory).
    pub(crate) fn idle(&self, before: u64) -> Vec<(u64, ActorRef<Msg>)> {
        let conversations = self.lock();
        let idle = conversations.values().filter(|conversation| !conversation.is_busy());
        let used = |idle: &ResidentConversation| idle.activity.used.load(Ordering::Relaxed);
        let mut idle: Vec<_> = idle.map(|idle| (used(idle), idle)).filter(|(used, _)| *used <= before).collect();
        idle.sort_by_key(|(used, _)| *used);
        idle.iter().map(|(_, idle)| (idle.activity.bytes.load(Ordering::Relaxed), idle.actor.clone())).collect()
    }

    pub(crate) fn all(&self) -> Vec<ActorRef<Msg>> {
        self.lock().values().map(|conversation| conversation.actor.clone()).collect()
    }

    pub(crate) fn any_busy(&self) -> bool {
        self.lock().values().any(ResidentConversation::is_busy)
    }

    pub(crate) fn busy_count(&self) -> usize {
        self.lock().values().filter(|conversation| conversation.is_busy()).count()
    }

    /// Returns the totals of queued messages, requests in flight, and watchers.
    pub(crate) fn totals(&self) -> (usize, usize, usize) {
        self.lock().values().fold((0, 0, 0), |(queued, in_flight, watchers), conversation| {
            let activity = &conversation.activity;
            (
                queued + activity.queued.load(Ordering::Relaxed),
                in_flight + conversation.in_flight(),
                watchers + activity.watchers.load(Ordering::Relaxed),
            )
        })
    }

    /// Returns true if the conversation of a thread is in memory and has work.
    pub(crate) fn is_busy(&self, key: &Key) -> bool {
        self.lock().get(key).is_some_and(ResidentConversation::is_busy)
    }

    /// Returns at most `limit` conversations with work.
    pub(crate) fn busy(&self, limit: usize) -> Vec<ConversationView> {
        let conversations = self.lock();
        let busy = conversations.iter().filter(|(_, conversation)| conversation.is_busy());
        busy.take(limit)
            .map(|((_, thread), conversation)| ConversationView {
                thread: thread.clone(),
                phase: conversation.activity.phase(),
                in_flight: conversation.in_flight(),
                queued: conversation.activity.queued.load(Ordering::Relaxed),
                watchers: conversation.activity.watchers.load(Ordering::Relaxed),
            })
            .collect()
    }
}
