//! Decides after the end of a stream of the server whether and when the client reconnects.

use std::time::Duration;

use tonic::{Code, Status};

/// Maximum number of consecutive attempts to reconnect.
const ATTEMPTS: u32 = 12;
/// Delay before the first attempt, doubled after each attempt up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The message about the first attempt.
pub(crate) const RECONNECTING: &str = "the connection broke; reconnecting";

/// The consecutive attempts to reconnect a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reconnection {
    attempts: u32,
}

impl Reconnection {
    /// Counts an attempt after a stream ended, and returns the delay before it. `has_progress`: the stream sent new messages, so
    /// that the count starts at one. None: the maximum number of attempts is reached.
    pub(crate) fn delay(&mut self, has_progress: bool) -> Option<Duration> {
        let before = if has_progress { 0 } else { self.attempts };
        self.attempts = before.saturating_add(1);
        (before < ATTEMPTS).then(|| (PAUSE * 2_u32.saturating_pow(before)).min(PAUSE_MAX))
    }

    /// Returns true if the last counted attempt is the first one after progress.
    pub(crate) fn is_first(self) -> bool {
        self.attempts == 1
    }
}

/// Returns true if a call failed in transport, so it may be retried. A refusal of the server is final.
pub(crate) fn is_broken(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable => true,
        Code::Unknown | Code::Internal | Code::Cancelled | Code::DeadlineExceeded => status.details().is_empty(),
        _ => false,
    }
}

/// Returns true if the client may open the stream again: the connection broke, or the stream reached a time limit of the server.
/// Any other status is a refusal.
pub(crate) fn is_interrupted(status: &Status) -> bool {
    is_broken(status) || status.code() == Code::DeadlineExceeded
}

#[cfg(test)]
mod tests {
    use folio_types::{Error, Reason};

    use super::*;

    #[test]
    fn only_requests_that_failed_in_transit_are_retried() {
        assert!(is_broken(&Status::unavailable("connection refused")));
        assert!(is_broken(&Status::unknown("h2 protocol error")));
        for refused in [Status::not_found("x"), Status::invalid_argument("x"), Status::failed_precondition("x")] {
            assert!(!is_broken(&refused) && !is_interrupted(&refused));
        }
        let fault = folio_proto::status::from_error(Error::internal("a fault of the server"));
        assert!(!is_broken(&fault) && !is_interrupted(&fault));
    }

    #[test]
    fn a_stream_continues_after_a_shutdown_and_a_time_limit_of_the_server() {
        let draining = Error::unavailable(Reason::Draining, "the server is shutting down");
        let lifetime = Error::new(
            folio_types::Code::DeadlineExceeded,
            Reason::DeadlineExceeded,
            "the stream reached its lifetime",
        );
        for (error, is_of_transport) in [(draining, true), (lifetime, false)] {
            let status = folio_proto::status::from_error(error);
            assert!(is_interrupted(&status), "{status:?}");
            assert_eq!(is_broken(&status), is_of_transport, "{status:?}");
        }
    }

    #[test]
    fn delays_grow_until_the_last_attempt_and_progress_resets_them() {
        let mut reconnection = Reconnection::default();
        let mut delays = Vec::new();
        while let Some(delay) = reconnection.delay(false) {
            assert_eq!(reconnection.is_first(), delays.is_empty());
            delays.push(delay);
        }
        assert_eq!(delays.len(), ATTEMPTS as usize);
        assert_eq!(delays.get(..3), Some([200, 400, 800].map(Duration::from_millis).as_slice()));
        assert_eq!(delays.last(), Some(&PAUSE_MAX));
        assert_eq!(reconnection.delay(true), Some(PAUSE));
        assert!(reconnection.is_first());
        assert_eq!(reconnection.delay(false), Some(PAUSE * 2));
        assert!(!reconnection.is_first());
    }
}
