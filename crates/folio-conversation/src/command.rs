//! The response to an approval.

use folio_history::event::{CallView, Event, RoundView};
use folio_types::{Timestamp, TurnId};

/// The response to an approval. Equal decisions get equal responses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "one value per request, which is moved once")]
pub enum ApproveAnswer {
    /// The decisions are recorded. No call runs before the round is decided completely.
    StillAwaiting {
        /// Id of the turn.
        turn: TurnId,
        /// Number of the round, from 1.
        round: u32,
        /// Calls that still need a decision.
        missing: Vec<CallView>,
        /// Time from which decisions are refused.
        expires_at: Timestamp,
    },
    /// The round was executed, and the turn reached this state.
    Reached {
        /// The closing event: `awaiting_approval`, `completed`, `failed`, `cancelled`, `expired` or `superseded`.
        closing: Event,
        /// The decided round with the results of its calls.
        round: Box<RoundView>,
    },
}
