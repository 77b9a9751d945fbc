//! The answer to an approval.

use folio_history::event::{CallView, Event, RoundView};
use folio_types::{Timestamp, TurnId};

/// The answer to an approval. The same decisions get the same answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one for a request, handed on at once")]
pub enum ApproveAnswer {
    /// Recorded; nothing runs before the rest is decided.
    StillAwaiting {
        /// Id of the turn.
        turn: TurnId,
        /// Number of the round, from 1.
        round: u32,
        /// The calls that need a decision and have none.
        missing: Vec<CallView>,
        /// Time from which decisions are refused.
        expires_at: Timestamp,
    },
    /// The round was executed; the turn has reached this state.
    Reached {
        /// The closing event: `awaiting_approval`, `completed`, `failed`, `cancelled`, `expired` or `superseded`.
        closing: Event,
        /// The decided round with the results of its calls.
        round: Box<RoundView>,
    },
}
