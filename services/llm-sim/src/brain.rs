//! The port behind the endpoint: who decides what is answered.

use crate::answer::Answer;
use crate::faults::Fault;
use crate::pace::{Latency, Pacing};
use crate::request::ChatRequest;

/// Decides what is answered to a request.
pub trait Brain: Send + Sync {
    /// Answers the request, which is the `number`th of the endpoint (from 1).
    fn decide(&self, request: &ChatRequest, number: u64) -> Result<Decision, Refusal>;

    /// Forgets what it counted.
    fn reset(&self) {}
}

/// An answer and how it is given.
#[derive(Debug, Clone, Default)]
pub struct Decision {
    /// The answer.
    pub answer: Answer,
    /// The name of the rule that gave it.
    pub rule: Option<String>,
    /// A fault instead of, or within, the answer.
    pub fault: Option<Fault>,
    /// Pacing for this answer alone.
    pub pacing: Option<Pacing>,
    /// Latency for this answer alone.
    pub latency: Option<Latency>,
}

impl From<Answer> for Decision {
    fn from(answer: Answer) -> Self {
        Self { answer, ..Self::default() }
    }
}

/// No answer: sent as HTTP 400 in the endpoint's error form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(pub String);
