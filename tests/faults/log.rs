//! Log of requests and responses of clients. A line is written before a request is sent and after its response.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use folio_proto::v1;
use folio_types::{CallId, OrgId, Reason, RequestId, TurnId};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct Logged {
    pub org: OrgId,
    pub event: ClientEvent,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// The first event of a chat arrived: the turn was accepted.
    Accepted { request: RequestId, turn: TurnId },
    /// A stream, as far as it was read.
    Streamed {
        turn: TurnId,
        /// Number and name of each event.
        events: Vec<(u64, &'static str)>,
        /// True if the stream ended normally.
        complete: bool,
    },
    /// Decisions are about to be sent.
    Deciding(Decisions),
    /// Decisions were answered.
    Answered(Decisions, Box<v1::ApproveResponse>),
    /// Decisions were refused.
    Refused(Decisions, Reason),
    /// The creation of a resource outside turns was acknowledged.
    Created { id: String },
    /// Names in a list response.
    Listed(Vec<String>),
    /// The deletion of a resource was acknowledged.
    Deleted { id: String },
    /// A job was acknowledged that runs a prompt revision on these documents, in this order.
    Batch { job: String, prompt: String, documents: Vec<String> },
    /// A client received an ended job. `state`: completed, failed or cancelled.
    JobEnded { job: String, state: &'static str },
    /// The text of a document was read whose upload requested a proposal.
    AutoCreate { document: String },
    /// A change was acknowledged that gives a document a tag of a prompt. `prompt`: the newest revision of the prompt.
    Tagged { document: String, prompt: String },
    /// The rejection of a proposal was acknowledged.
    Rejected { proposal: String },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Decisions {
    pub turn: TurnId,
    pub round: u32,
    pub on: BTreeMap<CallId, ClientDecision>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ClientDecision {
    /// The call may run.
    Approve,
    /// The call may run with these arguments.
    Edit(Value),
    /// The call must not run.
    Reject,
}

impl Decisions {
    pub fn of(request: &v1::ApproveRequest) -> Self {
        use v1::decision::Decision;
        let one = |decision: &v1::Decision| {
            let verdict = match decision.decision.as_ref().expect("a decision") {
                Decision::Approved(_) => ClientDecision::Approve,
                Decision::ApprovedEdited(edited) => {
                    ClientDecision::Edit(serde_json::from_str(&edited.arguments_json).expect("arguments are JSON"))
                }
                Decision::Rejected(_) => ClientDecision::Reject,
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
    /// Appends a line.
    pub fn add(&self, org: &OrgId, event: ClientEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Logged { org: org.clone(), event });
    }

    pub fn lines(&self) -> Vec<Logged> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes each answer to decisions.
    pub fn change_answers(&self, change: impl Fn(&mut v1::ApproveResponse)) {
        for line in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            if let ClientEvent::Answered(_, answer) = &mut line.event {
                change(answer);
            }
        }
    }

    /// Returns the number of rounds whose decisions were answered.
    pub fn approvals(&self) -> usize {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rounds = lines.iter().filter_map(|line| match &line.event {
            ClientEvent::Answered(decisions, _) => Some((&decisions.turn, decisions.round)),
            _ => None,
        });
        rounds.collect::<BTreeSet<_>>().len()
    }

    /// Returns the number of lines that satisfy a condition.
    pub fn count(&self, matches: impl Fn(&ClientEvent) -> bool) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|line| matches(&line.event)).count()
    }
}
