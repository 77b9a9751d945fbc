//! A circuit breaker for a remote service (a model endpoint, a store), as a pure state machine. The caller passes the
//! time.
//!
//! ```text
//!            failures in a row reach the threshold
//!   closed ─────────────────────────────────────────▶ open
//!     ▲                                                │ open_seconds pass
//!     └─── the probe succeeds ── half-open ◀───────────┘
//!                                   │ one probe at a time; if it fails ──▶ open again
//! ```
//!
//! A failure is evidence that the service is unhealthy: no connection, a 5xx status, a timeout, a broken or malformed
//! stream. A refusal (4xx) and a rate limit show that the service is healthy. A call that its caller cancelled shows
//! nothing. The first token of a probe closes the breaker, but then the next failure opens it again.

use std::time::Duration;

use folio_types::Timestamp;

folio_types::settings! {
    #[derive(Copy)]
    pub struct BreakerOptions {
        /// Consecutive failures that open the breaker. 0 disables it.
        pub failures: u32 = 8,
        /// Time for which the breaker stays open before it admits one probe.
        pub open_seconds: Duration as "open_seconds" = Duration::from_secs(10),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Every call is admitted. `failures`: consecutive failures since the last success.
    Closed { failures: u32 },
    /// Every call is rejected. From `until` on, one call may probe.
    Open { until: Timestamp },
    /// One probe, with this admission number, is in flight; every other call is rejected.
    HalfOpen { probe: u64 },
}

/// Proof that a call was admitted. The caller returns it with the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Admission {
    number: u64,
}

/// Outcome of an admitted call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The service answered completely, or refused the request as invalid.
    Success,
    /// The first token arrived; the call is still in flight.
    FirstToken,
    /// The service is unhealthy.
    Failure,
    /// The caller cancelled the call: the health of the service is unknown.
    Abandoned,
}

#[derive(Debug, Clone)]
pub struct Breaker {
    options: BreakerOptions,
    state: BreakerState,
    admitted: u64,
}

impl Breaker {
    /// Creates a closed breaker.
    pub fn new(options: BreakerOptions) -> Self {
        Self { options, state: BreakerState::Closed { failures: 0 }, admitted: 0 }
    }

    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// Admits or rejects a call. The error is the time after which the caller should retry.
    pub fn admit(&mut self, now: Timestamp) -> Result<Admission, Duration> {
        let number = self.admitted.wrapping_add(1);
        match self.state {
            BreakerState::Closed { .. } => {}
            BreakerState::Open { until } => {
                // A clock that was set back must not extend the open time beyond one period.
                let left = (until.duration_since(now)).unsigned_abs().min(self.options.open_seconds);
                if now < until {
                    self.state = BreakerState::Open { until: now.checked_add(left).unwrap_or(until) };
                    return Err(left);
                }
                self.state = BreakerState::HalfOpen { probe: number };
            }
            BreakerState::HalfOpen { .. } => return Err(self.options.open_seconds.min(Duration::from_secs(1))),
        }
        self.admitted = number;
        Ok(Admission { number })
    }

    /// Records the outcome of an admitted call. `FirstToken` may precede the final outcome. While the breaker is open
    /// or half-open, it ignores outcomes of calls that it admitted before it opened.
    pub fn record(&mut self, admission: Admission, outcome: Outcome, now: Timestamp) {
        if self.options.failures == 0 {
            return;
        }
        match (self.state, outcome) {
            (BreakerState::Closed { .. }, Outcome::Success) => self.state = BreakerState::Closed { failures: 0 },
            (BreakerState::Closed { failures }, Outcome::Failure) => {
                let failures = failures.saturating_add(1);
                self.state = if failures >= self.options.failures {
                    self.open_state(now)
                } else {
                    BreakerState::Closed { failures }
                };
            }
            (BreakerState::HalfOpen { probe }, outcome) if probe == admission.number => {
                self.state = match outcome {
                    Outcome::Success => BreakerState::Closed { failures: 0 },
                    Outcome::FirstToken => BreakerState::Closed { failures: self.options.failures.saturating_sub(1) },
                    Outcome::Failure => self.open_state(now),
                    // The next call may probe at once.
                    Outcome::Abandoned => BreakerState::Open { until: now },
                };
            }
            _ => {}
        }
    }

    fn open_state(&self, now: Timestamp) -> BreakerState {
        BreakerState::Open { until: now.checked_add(self.options.open_seconds).unwrap_or(Timestamp::MAX) }
    }
}

#[cfg(test)]
mod tests;
