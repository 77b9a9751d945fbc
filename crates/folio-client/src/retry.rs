//! Decides whether and when a failed call or a broken stream is repeated. No I/O, no clock.

use std::time::Duration;

use folio_types::Code;

use crate::error::{Error, Result};

/// Delay before the first repetition, doubled after each repetition up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Maximum number of consecutive attempts to open a stream again.
const REJOIN_ATTEMPTS: u32 = 12;

/// Bounds of the repetitions of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of calls, including the first one. 1: no repetition.
    pub attempts: u32,
    /// Maximum delay. If the server requests a longer one, the error is returned.
    pub max_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { attempts: 5, max_delay: Duration::from_secs(30) }
    }
}

impl RetryPolicy {
    /// Returns the delay after failed call number `attempt`, from 1. `random`: from 0 to 1. None: the error is final.
    pub(crate) fn delay(&self, error: &Error, attempt: u32, random: f64) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        if let Some(requested) = error.retry_after() {
            return (requested <= self.max_delay).then_some(requested);
        }
        // A refusal without a delay, such as VERSION_CONFLICT, fails again if the same request is repeated.
        let is_unreachable = error.code() == Code::Unavailable;
        is_unreachable.then(|| pause(attempt.saturating_sub(1)).mul_f64(0.5 + random / 2.0).min(self.max_delay))
    }
}

fn pause(repetitions: u32) -> Duration {
    (PAUSE * 2_u32.saturating_pow(repetitions)).min(PAUSE_MAX)
}

/// The consecutive attempts to open one stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rejoining {
    policy: RetryPolicy,
    failures: u32,
}

impl Rejoining {
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Self { policy, failures: 0 }
    }

    /// Returns the delay before the next attempt after a stream ended. `error`: None if the stream ended without an error.
    /// `has_progress`: the stream sent new messages, so that the count starts at one.
    ///
    /// # Errors
    /// The error, if it is final or the attempts are exhausted.
    pub(crate) fn delay(&mut self, error: Option<Error>, has_progress: bool) -> Result<Duration> {
        let requested = error.as_ref().and_then(Error::retry_after).unwrap_or_default();
        let before = if has_progress { 0 } else { self.failures };
        let is_final = error.as_ref().is_some_and(|error| error.retry_after().is_none() && !error.is_interruption());
        if is_final || before >= REJOIN_ATTEMPTS || requested > self.policy.max_delay {
            return Err(
                error.unwrap_or_else(|| Error::new(Code::Unavailable, "the stream ended before its last message"))
            );
        }
        self.failures = before + 1;
        Ok(pause(before).max(requested))
    }

    /// Returns true if the last counted attempt is the first one after progress.
    pub(crate) fn is_first(&self) -> bool {
        self.failures == 1
    }
}

#[cfg(test)]
mod tests {
    use folio_proto::status::from_error;
    use folio_types::Reason;
    use tonic::Status;

    use super::*;

    fn refused(code: Code, retry_after: Option<u64>) -> Error {
        let mut error = folio_types::Error::new(code, Reason::QuotaExceeded, "refused");
        error.retry_after = retry_after.map(Duration::from_secs);
        from_error(error).into()
    }

    #[test]
    fn a_call_is_repeated_as_the_server_requests() {
        let policy = RetryPolicy { attempts: 3, max_delay: Duration::from_secs(10) };
        let delay = |error: &Error, attempt| policy.delay(error, attempt, 0.0);
        let limited = refused(Code::ResourceExhausted, Some(2));
        assert_eq!(delay(&limited, 1), Some(Duration::from_secs(2)));
        assert_eq!(delay(&refused(Code::Aborted, Some(1)), 2), Some(Duration::from_secs(1)));
        assert_eq!(delay(&limited, 3), None, "the attempts are exhausted");
        assert_eq!(delay(&refused(Code::ResourceExhausted, Some(11)), 1), None, "the delay is too long");
        let unreachable = Error::from(Status::unavailable("connection refused"));
        assert_eq!(delay(&unreachable, 1), Some(PAUSE / 2));
        assert_eq!(policy.delay(&unreachable, 2, 1.0), Some(PAUSE * 2));
        for code in [Code::Aborted, Code::NotFound, Code::InvalidArgument, Code::Internal, Code::ResourceExhausted] {
            assert_eq!(delay(&refused(code, None), 1), None, "{code:?}");
        }
    }

    #[test]
    fn delays_grow_until_the_last_attempt_and_progress_resets_them() {
        let mut rejoining = Rejoining::new(RetryPolicy::default());
        let mut delays = Vec::new();
        while let Ok(delay) = rejoining.delay(None, false) {
            assert_eq!(rejoining.is_first(), delays.is_empty());
            delays.push(delay);
        }
        assert_eq!(delays.len(), REJOIN_ATTEMPTS as usize);
        assert_eq!(delays.get(..3), Some([200, 400, 800].map(Duration::from_millis).as_slice()));
        assert_eq!(delays.last(), Some(&PAUSE_MAX));
        assert_eq!(rejoining.delay(None, true).unwrap(), PAUSE);
        assert!(rejoining.is_first());
        assert_eq!(rejoining.delay(None, false).unwrap(), PAUSE * 2);
        assert!(!rejoining.is_first());
    }

    #[test]
    fn only_an_interrupted_stream_is_opened_again() {
        let policy = RetryPolicy { max_delay: Duration::from_secs(10), ..RetryPolicy::default() };
        let mut rejoining = Rejoining::new(policy);
        for interrupted in [refused(Code::DeadlineExceeded, None), Status::unknown("h2 protocol error").into()] {
            assert_eq!(rejoining.delay(Some(interrupted), true).unwrap(), PAUSE);
        }
        let limited = refused(Code::ResourceExhausted, Some(3));
        assert_eq!(rejoining.delay(Some(limited), true).unwrap(), Duration::from_secs(3));
        for error in [refused(Code::NotFound, None), refused(Code::Unavailable, Some(11))] {
            let code = error.code();
            assert_eq!(rejoining.delay(Some(error), true).unwrap_err().code(), code);
        }
    }
}
