//! Telling the other nodes of the open turn, where there are others.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use folio_storage::SharedTurn;
use folio_types::TurnId;
use folio_types::thread::{OpenTurn, Phase, ThreadHeader};

use super::state::State;
use crate::share::Teller;

/// What the other nodes were told of the thread.
pub(super) struct ToldOthers {
    /// The epoch and the open turn that they know of.
    state: (u64, Option<OpenTurn>),
    /// The turn, and the number of its last event that they were told.
    event: (u32, Arc<AtomicU64>),
    teller: Option<Teller>,
}

impl ToldOthers {
    /// As it was told by who appended this header.
    pub(super) fn of(header: &ThreadHeader) -> Self {
        Self { state: (header.epoch, header.open_turn.clone()), event: (0, Arc::default()), teller: None }
    }
}

impl State {
    /// Tells what has changed of the open turn.
    pub(super) fn tell(&mut self) {
        let Some(share) = self.shared.share().cloned() else { return };
        let state = match &self.loaded {
            Some(loaded) if self.shared.owns(loaded.machine.header()) => {
                let header = loaded.machine.header();
                (header.epoch, header.open_turn.clone())
            }
            _ => return,
        };
        let work = self.work(self.shared.token.clone());
        let Some(shared) = self.shared_turn() else { return };
        let Some(loaded) = self.loaded.as_mut().filter(|loaded| loaded.told.state != state) else { return };
        let told = &mut loaded.told;
        told.state = state;
        if told.event.0 != shared.turn.number {
            told.event = (shared.turn.number, Arc::default());
        }
        let left = match &told.teller {
            Some(teller) => teller.tell(shared),
            None => Some(shared),
        };
        if let Some(shared) = left {
            told.teller = Some(Teller::start(&work, share, shared, told.event.1.clone()));
        }
    }

    /// The newest turn as the others are told of it.
    fn shared_turn(&self) -> Option<SharedTurn> {
        let machine = &self.loaded.as_ref()?.machine;
        let header = machine.header();
        let open = header.open_turn.as_ref();
        let number = open.map_or(header.turns, |open| open.number);
        let phase = open.map(|open| open.phase);
        let pending = match phase {
            Some(Phase::Paused) => machine.view(self.shared.environment().now(), number)?.pending,
            _ => Vec::new(),
        };
        Some(SharedTurn {
            org: header.org.clone(),
            user: header.user.clone(),
            turn: TurnId::new(header.id.clone(), number),
            owner: self.shared.incarnation().clone(),
            epoch: header.epoch,
            version: header.version,
            phase,
            pending,
            expires_at: open.and_then(|open| open.expires_at),
        })
    }
}
