//! The machine.

use folio_types::event::TurnView;
use folio_types::history::History;
use folio_types::thread::ThreadHeader;
use folio_types::{Incarnation, Timestamp};

use super::{Command, Effect};

/// The turn machine of one thread.
#[derive(Debug, Clone)]
pub struct Machine {
    me: Incarnation,
    header: ThreadHeader,
    history: History,
    next_batch: u128,
}

impl Machine {
    /// The machine of a stored thread, not its owner yet. `seed`: random bits, other ones for each machine ever made; the
    /// ids of its appends come from it.
    pub fn load(me: Incarnation, header: ThreadHeader, history: History, seed: u128) -> Self {
        Self { me, header, history, next_batch: seed }
    }

    /// Takes a command in and says what to do about it.
    pub fn handle(&mut self, now: Timestamp, command: Command) -> Vec<Effect> {
        let _ = (now, command, &self.me, self.next_batch);
        Vec::new()
    }

    /// The thread's header as this machine knows it.
    pub fn header(&self) -> &ThreadHeader {
        &self.header
    }

    /// The thread's history, rounds that are not appended yet among it: what the model is sent is made from this.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// A turn as clients see it now.
    pub fn view(&self, turn: u32) -> Option<TurnView> {
        Some(self.history.turn(turn)?.view(&self.header.id))
    }

    /// Whether nothing is under way: no append, no model call, no tool, nobody who waits. A machine at rest can be dropped.
    pub fn is_at_rest(&self) -> bool {
        true
    }
}
