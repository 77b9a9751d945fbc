//! `Expire`: an expired pause ends its turn, and none of its calls runs.

use folio_history::TurnRecord;
use folio_history::journal::End;
use folio_types::Timestamp;

use super::Machine;
use super::machine::State;

impl Machine {
    /// Ends the turn if its pause has expired. An open turn without an owner is taken over.
    pub(super) fn expire_turn(&mut self, now: Timestamp, turn: u32) {
        if self.is_open(turn) {
            self.advance_unowned(now);
        }
    }

    /// Ends the pending turn if its pause has expired, and returns true if so. The request that noticed the expiry is
    /// answered after the end is committed.
    pub(super) fn expire_if_due(&mut self, now: Timestamp) -> bool {
        let pause = self.history.open().and_then(TurnRecord::pause);
        let due = self.state == State::Waiting && pause.is_some_and(|pause| pause.expires_at <= now);
        if due {
            self.end(now, End::Expired);
        }
        due
    }
}
