//! Evaluates rows that an op enters before its deciding write: the row of a name, the entry of a reference, and the
//! idempotency record of a request. The effect of a row is that the resource has the name, that it refers to the
//! referenced resource, or that the request was executed.
//!
//! | effect exists | op row exists | age above [`STALE_AFTER`] | op | status | verdict for another op |
//! |---|---|---|---|---|---|
//! | yes | – | – | – | live | `Taken`; `Claimed` for the same resource |
//! | no | yes | – | – | dead | `Replace` |
//! | no | no | yes | request | open | `Close` |
//! | no | no | – | tool call | open | `Contended` |
//! | no | no | no | – | open | `Contended` |
//!
//! No process recovers a request, so another process may close its op. Its turn recovers a tool call.

use std::time::Duration;

use folio_types::op::OpKey;

/// Age above which a row is older than any write in progress.
pub const STALE_AFTER: Duration = Duration::from_secs(60);

/// The facts about a row that an op entered. `has_op_row` is read before `has_effect`: an op row that exists was written
/// before the effect is read.
#[derive(Debug, Clone)]
pub struct EnteredRow {
    /// The op that entered the row.
    pub op: OpKey,
    pub age: Duration,
    /// True if the op has an op row, so that it writes nothing more.
    pub has_op_row: bool,
    /// True if the effect of the row exists.
    pub has_effect: bool,
}

/// The action of an op that needs the row of another op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowVerdict {
    /// The resource of the op already has the row.
    Claimed,
    /// The op is refused, because the row belongs to another resource or request.
    Taken,
    /// The row is dead: any process may replace or remove it.
    Replace,
    /// The op that entered the row is closed, and the row is evaluated again.
    Close,
    /// The op is refused and may be retried, because the op that entered the row may still write.
    Contended,
}

impl EnteredRow {
    /// `is_own`: the row belongs to the resource of the op that needs the row.
    pub fn verdict(&self, is_own: bool) -> RowVerdict {
        let may_be_closed = matches!(self.op, OpKey::Request { .. }) && self.age > STALE_AFTER;
        match (self.has_effect, self.has_op_row) {
            (true, _) if is_own => RowVerdict::Claimed,
            (true, _) => RowVerdict::Taken,
            (false, true) => RowVerdict::Replace,
            (false, false) if may_be_closed => RowVerdict::Close,
            (false, false) => RowVerdict::Contended,
        }
    }
}

#[cfg(test)]
mod tests {
    use folio_types::{CallId, ThreadId, TurnId, UserId};

    use super::*;

    #[test]
    fn a_row_is_live_open_or_dead_and_only_a_stale_request_is_closed() {
        let call = OpKey::Call(CallId::new(TurnId::new(ThreadId::derive(&["a"]), 1), 1, 1));
        let request = OpKey::Request { user: UserId::derive(&["a"]), request: "a".parse().unwrap() };
        let old = STALE_AFTER + Duration::from_micros(1);
        use RowVerdict::{Claimed, Close, Contended, Replace, Taken};
        for (has_effect, has_op_row, age, op, is_own, verdict) in [
            (true, true, old, &request, false, Taken),
            (true, false, old, &request, false, Taken),
            (true, true, old, &call, true, Claimed),
            (true, false, Duration::ZERO, &request, true, Claimed),
            (false, true, Duration::ZERO, &call, false, Replace),
            (false, true, old, &request, true, Replace),
            (false, false, old, &request, false, Close),
            (false, false, old, &request, true, Close),
            (false, false, old, &call, false, Contended),
            (false, false, STALE_AFTER, &request, false, Contended),
            (false, false, STALE_AFTER, &request, true, Contended),
        ] {
            let row = EnteredRow { op: op.clone(), age, has_op_row, has_effect };
            assert_eq!(row.verdict(is_own), verdict, "{row:?}, own: {is_own}");
        }
    }
}
