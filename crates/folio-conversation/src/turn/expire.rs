//! `Expire`: a pause whose time has run out ends its turn, and nothing of it runs.

use folio_history::TurnRecord;
use folio_history::journal::End;
use folio_types::Timestamp;

use super::Machine;
use super::machine::State;

impl Machine {
    /// Ends the turn where its pause has run out; one that nobody runs is brought to its end or pause.
    pub(super) fn expire_turn(&mut self, now: Timestamp, turn: u32) {
        if self.is_open(turn) {
            self.found(now);
        }
    }

    /// Ends the waiting turn as expired where its time has run out, and says whether that is so. Judged once for each
    /// request: who asked is answered when the end stands.
    pub(super) fn expire_if_due(&mut self, now: Timestamp) -> bool {
        let pause = self.history.open().and_then(TurnRecord::pause);
        let due = self.state == State::Waiting && pause.is_some_and(|pause| pause.expires_at <= now);
        if due {
            self.end(now, End::Expired);
        }
        due
    }
}
