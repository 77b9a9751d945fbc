//! What clients sent and heard: written down before a request is sent, and after it was answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use folio_proto::v1;
use folio_types::{CallId, OrgId, Reason, RequestId, TurnId};
use serde_json::Value;

/// One line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    /// Whose client it is.
    pub org: OrgId,
    /// What it sent or heard.
    pub what: What,
}

/// What a client sent or heard.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// The first event of a chat came: the turn was accepted.
    Accepted {
        /// The request.
        request: RequestId,
        /// What it became.
        turn: TurnId,
    },
    /// A stream, as far as it was read.
    Streamed {
        /// The turn.
        turn: TurnId,
        /// Number and name of each event.
        events: Vec<(u64, &'static str)>,
        /// Whether it ended in order.
        whole: bool,
    },
    /// Decisions are about to be sent.
    Deciding(Decisions),
    /// They were answered.
    Answered(Decisions, Box<v1::ApproveResponse>),
    /// They were refused.
    Refused(Decisions, Reason),
    /// Something was made outside turns, and that was acknowledged.
    Made {
        /// Its id.
        id: String,
    },
    /// Names that a list showed.
    Listed(Vec<String>),
}

/// Decisions on one round.
#[derive(Debug, Clone, PartialEq)]
pub struct Decisions {
    /// The turn.
    pub turn: TurnId,
    /// The round.
    pub round: u32,
    /// Each by its call.
    pub on: BTreeMap<CallId, Verdict>,
}

/// A decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Run it.
    Approve,
    /// Run it with these arguments.
    Edit(Value),
    /// Do not run it.
    Reject,
}

impl Decisions {
    /// What a request decides.
    ///
    /// # Panics
    /// It is malformed, which a test's own request is not.
    pub fn of(request: &v1::ApproveRequest) -> Self {
        use v1::decision::Decision;
        let one = |decision: &v1::Decision| {
            let verdict = match decision.decision.as_ref().expect("a decision") {
                Decision::Approved(_) => Verdict::Approve,
                Decision::ApprovedEdited(edited) => {
                    Verdict::Edit(serde_json::from_str(&edited.arguments_json).expect("arguments are JSON"))
                }
                Decision::Rejected(_) => Verdict::Reject,
            };
            (decision.call_id.parse().expect("a call's id"), verdict)
        };
        Self {
            turn: request.turn_id.parse().expect("a turn's id"),
            round: request.round,
            on: request.decisions.iter().map(one).collect(),
        }
    }
}

/// The log of all clients. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Log(Arc<Mutex<Vec<Logged>>>);

impl Log {
    /// Adds a line.
    pub fn add(&self, org: &OrgId, what: What) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Logged { org: org.clone(), what });
    }

    /// All of it so far.
    pub fn lines(&self) -> Vec<Logged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many lines are so.
    pub fn count(&self, so: impl Fn(&What) -> bool) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|line| so(&line.what)).count()
    }
}
