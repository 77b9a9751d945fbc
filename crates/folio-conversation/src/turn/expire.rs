//! `Expire`: an expired pause ends its turn, and none of its calls runs. An expired group ends its turn with its children.

use folio_history::TurnRecord;
use folio_history::journal::{ClosingCause, End};
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

    /// Ends the pending turn if its pause or group has expired, and returns true if so. The request that noticed the expiry is
    /// answered after the end is committed.
    pub(super) fn expire_if_due(&mut self, now: Timestamp) -> bool {
        if self.is_group_expired(now) {
            self.close(now, ClosingCause::Expired);
            return true;
        }
        let pause = self.history.open().and_then(TurnRecord::pause);
        let due = self.state == State::Waiting && pause.is_some_and(|pause| pause.expires_at <= now);
        if due {
            self.end(now, End::Expired);
        }
        due
    }
}
