//! The trait that produces responses.

use crate::answer::Answer;
use crate::faults::Fault;
use crate::pace::{Latency, Pacing};
use crate::request::ChatRequest;

/// Produces the response to a request.
pub trait Responder: Send + Sync {
    /// Returns the response to the endpoint's request number `number` (from 1).
    fn decide(&self, request: &ChatRequest, number: u64) -> Result<Decision, Refusal>;

    /// Resets all counters.
    fn reset(&self) {}
}

/// A response with the way to send it.
#[derive(Debug, Clone, Default)]
pub struct Decision {
    /// The response.
    pub answer: Answer,
    /// Name of the script's rule that matched.
    pub rule: Option<String>,
    /// Fault instead of the response or within it.
    pub fault: Option<Fault>,
    /// Pacing of this response. None: the endpoint's.
    pub pacing: Option<Pacing>,
    /// Latency of this response. None: the endpoint's.
    pub latency: Option<Latency>,
}

impl From<Answer> for Decision {
    fn from(answer: Answer) -> Self {
        Self { answer, ..Self::default() }
    }
}

/// A refused request: sent as HTTP 400 in the form of OpenAI's errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);
