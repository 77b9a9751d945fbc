//! Publishes the state of the newest turn to the other nodes of the cluster.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use folio_history::thread::{OpenTurn, Phase, ThreadHeader};
use folio_storage::SharedTurn;

use super::state::State;
use crate::publish::Publisher;

/// State of the thread as last published.
pub(super) struct Publication {
    state: PublishedState,
    /// Number of the turn, and number of its last published event.
    event: (u32, Arc<AtomicU64>),
    publisher: Option<Publisher>,
}

/// Published part of a header.
#[derive(PartialEq, Eq)]
struct PublishedState {
    epoch: u64,
    open_turn: Option<OpenTurn>,
    /// Version while the turn waits, because decisions increment it. Otherwise 0.
    version: u64,
}

impl PublishedState {
    fn of(header: &ThreadHeader) -> Self {
        let is_waiting = header.open_turn.as_ref().is_some_and(|open| open.phase == Phase::Paused);
        let version = if is_waiting { header.version } else { 0 };
        Self { epoch: header.epoch, open_turn: header.open_turn.clone(), version }
    }
}

impl Publication {
    /// Returns the state that the writer of this header published.
    pub(super) fn of(header: &ThreadHeader) -> Self {
        Self { state: PublishedState::of(header), event: (0, Arc::default()), publisher: None }
    }
}

impl State {
    /// Publishes the state of the newest turn if it changed.
    pub(super) fn publish(&mut self) {
        let Some(shared_stores) = self.shared.dependencies.shared_turns.clone() else { return };
        let state = match &self.loaded {
            Some(loaded) if self.shared.owns(loaded.machine.header()) => PublishedState::of(loaded.machine.header()),
            _ => return,
        };
        if self.loaded.as_ref().is_some_and(|loaded| loaded.publication.state == state) {
            return;
        }
        let work = self.task_context(self.shared.token.clone());
        let Some(shared) = self.shared_turn() else { return };
        let Some(loaded) = self.loaded.as_mut() else { return };
        let record = loaded.machine.history().turn(shared.turn.number);
        let has_paused = record.is_some_and(|record| record.rounds.iter().any(|round| round.paused.is_some()));
        let publication = &mut loaded.publication;
        publication.state = state;
        if publication.event.0 != shared.turn.number {
            publication.event = (shared.turn.number, Arc::default());
        }
        let unpublished = match &publication.publisher {
            Some(publisher) => publisher.publish(shared),
            None => Some(shared),
        };
        if let Some(shared) = unpublished {
            publication.publisher =
                Some(Publisher::start(&work, shared_stores, shared, has_paused, publication.event.1.clone()));
        }
    }

    /// Publishes a pending turn again. The owner publishes a running turn periodically.
    pub(super) fn republish(&self) {
        let Some(shared_stores) = self.shared.dependencies.shared_turns.clone() else { return };
        let Some(state) = self.shared_turn().filter(SharedTurn::is_waiting) else { return };
        self.task_context(self.shared.token.clone()).spawn(async move {
            if let Err(error) = shared_stores.turns.publish(&state).await {
                tracing::debug!(turn = %state.turn, %error, "a pending turn could not be published again");
            }
        });
    }

    /// Returns the state of the open or newest turn for publication.
    fn shared_turn(&self) -> Option<SharedTurn> {
        let machine = &self.loaded.as_ref()?.machine;
        let header = machine.header();
        let number = header.open_turn.as_ref().map_or(header.turns, |open| open.number);
        let node = self.shared.dependencies.incarnation.clone();
        Some(SharedTurn::of(header, machine.history().turn(number), node))
    }
}
