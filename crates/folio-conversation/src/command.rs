//! The answer to an approval.

use folio_history::event::{CallView, Event, RoundView};
use folio_types::{Timestamp, TurnId};

/// What an approval came to. The same decisions again give the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one for a request, handed on at once")]
pub enum ApproveAnswer {
    /// Recorded; nothing runs before the rest is decided.
    StillAwaiting {
        /// The turn.
        turn: TurnId,
        /// The round.
        round: u32,
        /// The calls that still need a decision.
        missing: Vec<CallView>,
        /// From when no decision counts.
        expires_at: Timestamp,
    },
    /// The round was carried out, and this is where the turn stands now.
    Reached {
        /// The closing event: `awaiting_approval`, `completed`, `failed`, `cancelled`, `expired` or `superseded`.
        closing: Event,
        /// The decided round with the results of its calls.
        round: Box<RoundView>,
    },
}
