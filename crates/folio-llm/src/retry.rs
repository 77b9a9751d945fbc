//! How long to wait before a call is tried again.

use std::time::Duration;

use folio_types::{Environment, Timestamp};
use serde::{Deserialize, Serialize};

/// Retries of a call, all of them before its first token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryOptions {
    /// Tries after the first one; 0 to 10.
    pub retries: u32,
    /// Before the first retry about this long; before each further one twice as long.
    #[serde(with = "folio_types::seconds")]
    pub base_seconds: Duration,
    /// Never longer than this, unless the endpoint asks for it.
    #[serde(with = "folio_types::seconds")]
    pub max_seconds: Duration,
    /// The longest `Retry-After` that is waited for; if an endpoint asks for more, the call fails at once and says so.
    #[serde(with = "folio_types::seconds")]
    pub max_retry_after_seconds: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            retries: 3,
            base_seconds: Duration::from_millis(250),
            max_seconds: Duration::from_secs(8),
            max_retry_after_seconds: Duration::from_secs(20),
        }
    }
}

impl RetryOptions {
    /// The wait before retry number `retry` (from 0), or none where it is not to be tried again. Without a word of the
    /// endpoint the wait is random between half and all of the doubling step; what the endpoint asks for is waited in
    /// full, and up to a base step more, so that callers do not come back all at once.
    pub fn wait(&self, retry: u32, asked: Option<Duration>, environment: &dyn Environment) -> Option<Duration> {
        if retry >= self.retries {
            return None;
        }
        let base = self.base_seconds;
        let Some(asked) = asked else {
            let step = base.saturating_mul(2u32.saturating_pow(retry)).min(self.max_seconds);
            return Some(step / 2 + fraction(step / 2, environment));
        };
        (asked <= self.max_retry_after_seconds).then(|| asked.saturating_add(fraction(base, environment)))
    }
}

/// A random part of a duration.
fn fraction(of: Duration, environment: &dyn Environment) -> Duration {
    let nanoseconds = of.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(environment.random() % nanoseconds).unwrap_or(0))
}

/// The value of a `Retry-After` header: whole seconds, or an HTTP date. Anything else is as if it were not there.
pub fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // More digits than a u64 holds: as long as can be.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use folio_testkit::{Simulated, seed};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn retry_after_is_read_as_seconds_or_date() {
        let now: Timestamp = "1994-11-06T08:49:30Z".parse().unwrap();
        for (value, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
        ] {
            assert_eq!(parse_retry_after(value, now), seconds.map(Duration::from_secs), "{value:?}");
        }
    }

    #[test]
    fn waits_double_with_jitter_and_are_bounded() {
        let environment = Simulated::new(seed());
        let options = RetryOptions {
            retries: 9,
            base_seconds: Duration::from_millis(100),
            max_seconds: Duration::from_secs(1),
            ..RetryOptions::default()
        };
        let mut different = std::collections::HashSet::new();
        for retry in 0..9 {
            let step = Duration::from_millis(100 * 2u64.pow(retry)).min(Duration::from_secs(1));
            for _ in 0..100 {
                let wait = options.wait(retry, None, &environment).unwrap();
                assert!(wait >= step / 2 && wait <= step, "{retry}: {wait:?}");
                different.insert(wait);
            }
        }
        assert!(different.len() > 800, "no jitter");
        assert_eq!(options.wait(9, None, &environment), None);
    }

    #[test]
    fn what_the_endpoint_asks_for_is_waited_in_full_up_to_the_bound() {
        let environment = Simulated::new(seed());
        let options = RetryOptions::default();
        let wait = options.wait(0, Some(Duration::from_secs(7)), &environment).unwrap();
        assert!(wait >= Duration::from_secs(7) && wait < Duration::from_secs(8));
        assert_eq!(options.wait(0, Some(Duration::from_secs(21)), &environment), None);
        assert_eq!(options.wait(0, Some(Duration::MAX), &environment), None);
    }

    proptest! {
        #[test]
        fn any_header_is_read_without_panic(value in "\\PC{0,60}") {
            let _ = parse_retry_after(&value, Timestamp::MAX);
            let _ = parse_retry_after(&value, Timestamp::MIN);
        }
    }
}
