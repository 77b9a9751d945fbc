//! A circuit breaker before something that answers calls (a model's endpoint, a store): a pure state machine over the time that
//! its caller passes in.
//!
//! ```text
//!            failures in a row reach the threshold
//!   closed ─────────────────────────────────────────▶ open
//!     ▲ ▲                                              │ open_seconds pass
//!     │ └── the probe answers ── half-open ◀───────────┘
//!     │                             │ one probe at a time; it fails ──▶ open again
//!     └ on trial: the next failure opens it at once, the next success ends the trial
//! ```
//!
//! What counts as failure is what says that the other side is sick: no connection, 5xx, time-outs, broken or senseless
//! streams. A refusal and a rate limit say that it is well. A call that its caller gave up says nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// When a breaker opens, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerOptions {
    /// Failures in a row that open it; 0 switches it off.
    pub failures: u32,
    /// How long it stays open before one call may probe the endpoint.
    #[serde(with = "crate::seconds")]
    pub open_seconds: Duration,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self { failures: 8, open_seconds: Duration::from_secs(10) }
    }
}

/// Where a breaker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Calls pass.
    Closed {
        /// Failures since the last success.
        failures: u32,
    },
    /// No call passes.
    Open {
        /// Until when.
        until: Timestamp,
    },
    /// One call at a time probes.
    HalfOpen {
        /// The probe that is under way, by the number it was admitted with.
        probe: u64,
    },
}

/// What a caller that was admitted hands back with the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Admission {
    number: u64,
}

/// How an admitted call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was answered whole, or refused for what it asked.
    Success,
    /// The first token came; the call goes on.
    Answering,
    /// The endpoint is sick.
    Failure,
    /// The caller gave up: nothing is known.
    Abandoned,
}

/// The breaker of one endpoint.
#[derive(Debug, Clone)]
pub struct Breaker {
    options: BreakerOptions,
    state: BreakerState,
    admitted: u64,
}

impl Breaker {
    /// A closed breaker.
    pub fn new(options: BreakerOptions) -> Self {
        Self { options, state: BreakerState::Closed { failures: 0 }, admitted: 0 }
    }

    /// Where it stands.
    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// Whether a call may be made now; if not, after which time it is worth asking again.
    pub fn admit(&mut self, now: Timestamp) -> Result<Admission, Duration> {
        let number = self.admitted.wrapping_add(1);
        match self.state {
            BreakerState::Closed { .. } => {}
            BreakerState::Open { until } => {
                // A clock that was set back must not keep it open for longer than one period.
                let left = (until.duration_since(now)).unsigned_abs().min(self.open_for());
                if now < until {
                    self.state = BreakerState::Open { until: now.checked_add(left).unwrap_or(until) };
                    return Err(left);
                }
                self.state = BreakerState::HalfOpen { probe: number };
            }
            BreakerState::HalfOpen { .. } => return Err(self.open_for().min(Duration::from_secs(1))),
        }
        self.admitted = number;
        Ok(Admission { number })
    }

    /// Notes how an admitted call went. `Answering` may come before the final outcome; of a call that was admitted before
    /// the breaker opened, nothing is taken while it is open or probing.
    pub fn note(&mut self, admission: Admission, outcome: Outcome, now: Timestamp) {
        if self.options.failures == 0 {
            return;
        }
        match (self.state, outcome) {
            (BreakerState::Closed { .. }, Outcome::Success) => self.state = BreakerState::Closed { failures: 0 },
            (BreakerState::Closed { failures }, Outcome::Failure) => {
                let failures = failures.saturating_add(1);
                self.state = if failures >= self.options.failures {
                    self.opened(now)
                } else {
                    BreakerState::Closed { failures }
                };
            }
            (BreakerState::HalfOpen { probe }, outcome) if probe == admission.number => {
                self.state = match outcome {
                    Outcome::Success => BreakerState::Closed { failures: 0 },
                    Outcome::Answering => BreakerState::Closed { failures: self.options.failures.saturating_sub(1) },
                    Outcome::Failure => self.opened(now),
                    // The next call may probe at once.
                    Outcome::Abandoned => BreakerState::Open { until: now },
                };
            }
            _ => {}
        }
    }

    fn open_for(&self) -> Duration {
        self.options.open_seconds
    }

    fn opened(&self, now: Timestamp) -> BreakerState {
        BreakerState::Open { until: now.checked_add(self.open_for()).unwrap_or(Timestamp::MAX) }
    }
}

#[cfg(test)]
mod tests;
