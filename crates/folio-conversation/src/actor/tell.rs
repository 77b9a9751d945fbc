//! Telling the other nodes of the open turn, where there are others.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use folio_history::TurnRecord;
use folio_history::journal::Paused;
use folio_history::thread::{OpenTurn, Phase, ThreadHeader};
use folio_storage::SharedTurn;
use folio_types::TurnId;
use folio_types::policy::Approver;

use super::state::State;
use crate::share::Teller;

/// What the other nodes were told of the thread.
pub(super) struct ToldOthers {
    state: KnownState,
    /// The turn, and the number of its last event that they were told.
    event: (u32, Arc<AtomicU64>),
    teller: Option<Teller>,
}

/// What they know of: the epoch and the open turn, and, while it waits, the version, which decisions raise.
#[derive(PartialEq, Eq)]
struct KnownState(u64, Option<OpenTurn>, u64);

impl KnownState {
    fn of(header: &ThreadHeader) -> Self {
        let waits = header.open_turn.as_ref().is_some_and(|open| open.phase == Phase::Paused);
        Self(header.epoch, header.open_turn.clone(), if waits { header.version } else { 0 })
    }
}

impl ToldOthers {
    /// As it was told by who appended this header.
    pub(super) fn of(header: &ThreadHeader) -> Self {
        Self { state: KnownState::of(header), event: (0, Arc::default()), teller: None }
    }
}

impl State {
    /// Tells what has changed of the open turn.
    pub(super) fn tell(&mut self) {
        let Some(share) = self.shared.share().cloned() else { return };
        let state = match &self.loaded {
            Some(loaded) if self.shared.owns(loaded.machine.header()) => KnownState::of(loaded.machine.header()),
            _ => return,
        };
        if self.loaded.as_ref().is_some_and(|loaded| loaded.told.state == state) {
            return;
        }
        let work = self.work(self.shared.token.clone());
        let Some(shared) = self.shared_turn() else { return };
        let Some(loaded) = self.loaded.as_mut() else { return };
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

    /// Tells once more what waits here, whoever told it before; what runs is told by its owner anyway.
    pub(super) fn tell_again(&self) {
        let Some(share) = self.shared.share().cloned() else { return };
        let Some(state) = self.shared_turn().filter(SharedTurn::waits) else { return };
        self.work(self.shared.token.clone()).spawn(async move {
            if let Err(error) = share.turns.publish(&state).await {
                tracing::debug!(turn = %state.turn, %error, "a turn that waits could not be told again");
            }
        });
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
        let record = machine.history().turn(number);
        let asker = record.map(|record| record.accepted.user.clone());
        let pause = record.filter(|_| phase == Some(Phase::Paused));
        let pause = pause.and_then(|record| Some((record, record.pause()?)));
        Some(SharedTurn {
            org: header.org.clone(),
            user: header.user.clone(),
            asker,
            turn: TurnId::new(header.id.clone(), number),
            owner: self.shared.incarnation().clone(),
            epoch: header.epoch,
            version: header.version,
            phase,
            pending,
            since: pause.map(|(_, pause)| pause.at),
            approvers: pause.map(|(record, pause)| approvers(record, pause)).unwrap_or_default(),
            expires_at: open.and_then(|open| open.expires_at),
        })
    }
}

/// Who may take the decisions that are missing in a pause, each kind once.
fn approvers(record: &TurnRecord, pause: &Paused) -> Vec<Approver> {
    let mut approvers = Vec::new();
    for call in record.round(pause.round).into_iter().flat_map(|round| round.undecided()) {
        let approver = call.call.waits.as_ref().map(|waits| waits.approver.clone()).unwrap_or_default();
        if !approvers.contains(&approver) {
            approvers.push(approver);
        }
    }
    if approvers.is_empty() { vec![Approver::default()] } else { approvers }
}
