//! Retries of a call: which failures are retried, how often, and the waits between the attempts.

use std::time::Duration;

use folio_types::{Environment, Timestamp};

folio_types::settings! {
    /// Retries of a call, all before its first delta of text.
    #[derive(Copy)]
    pub struct RetryOptions {
        /// Retries after the first attempt, 0 to 10.
        pub retries: u32 = 3,
        /// Base wait before the first retry. Doubles with each retry.
        pub base_seconds: Duration as "base_seconds" = Duration::from_millis(250),
        /// Maximum wait, unless the endpoint requests a longer one.
        pub max_seconds: Duration as "max_seconds" = Duration::from_secs(8),
        /// Maximum `Retry-After` that is respected. If the endpoint requests more, the call fails immediately with that
        /// wait.
        pub max_retry_after_seconds: Duration as "max_retry_after_seconds" = Duration::from_secs(20),
        /// Maximum total wait of a call for a model that the endpoint is loading. 0: the call fails at once.
        pub loading_seconds: Duration as "loading_seconds" = Duration::from_secs(120),
    }
}

/// Classifies a failed attempt for [`Retries`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryKind {
    /// A retry does not help, or the provider would charge twice.
    Never,
    /// A retry may succeed. `retries` bounds the number of these retries.
    Counted,
    /// The endpoint is loading the model. `loading_seconds` bounds the total wait.
    Loading,
}

/// The retries of one call.
#[derive(Debug, Default)]
pub struct Retries {
    counted: u32,
    /// Number of waits for a model that was loading, and their total duration.
    loading: (u32, Duration),
}

impl Retries {
    /// Returns the wait before the next attempt, and counts the retry. None: the call must not be retried.
    pub fn next_wait(
        &mut self,
        kind: RetryKind,
        retry_after: Option<Duration>,
        options: &RetryOptions,
        environment: &dyn Environment,
    ) -> Option<Duration> {
        match kind {
            RetryKind::Never => None,
            RetryKind::Counted if self.counted >= options.retries => None,
            RetryKind::Counted => {
                let wait = options.wait(self.counted, retry_after, environment)?;
                self.counted = self.counted.saturating_add(1);
                Some(wait)
            }
            RetryKind::Loading => {
                let (waits, waited) = self.loading;
                let wait = options.wait(waits, retry_after, environment)?;
                let total = waited.saturating_add(wait);
                self.loading = (waits.saturating_add(1), total);
                (total <= options.loading_seconds).then_some(wait)
            }
        }
    }
}

impl RetryOptions {
    /// Returns the wait before retry number `retry` (from 0). None: the endpoint requests a longer wait than the bound.
    /// Without `Retry-After`, the wait is random between half and all of the doubled step. With it, the wait is the
    /// requested time plus a random part of the base step, so that callers do not return simultaneously.
    fn wait(&self, retry: u32, retry_after: Option<Duration>, environment: &dyn Environment) -> Option<Duration> {
        let base = self.base_seconds;
        let Some(retry_after) = retry_after else {
            let step = base.saturating_mul(2u32.saturating_pow(retry)).min(self.max_seconds);
            return Some(step / 2 + fraction(step / 2, environment));
        };
        (retry_after <= self.max_retry_after_seconds).then(|| retry_after.saturating_add(fraction(base, environment)))
    }
}

/// Returns a random part of a duration.
fn fraction(of: Duration, environment: &dyn Environment) -> Duration {
    let nanoseconds = of.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(environment.random() % nanoseconds).unwrap_or(0))
}

/// Parses a `Retry-After` header: whole seconds or an HTTP date. Returns None for any other value.
pub fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // A number that exceeds a u64 counts as the maximum.
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
    }

    #[test]
    fn counted_retries_and_the_wait_for_a_loading_model_have_separate_bounds() {
        let environment = Simulated::new(seed());
        let options = RetryOptions {
            retries: 2,
            max_seconds: Duration::from_secs(1),
            loading_seconds: Duration::from_secs(30),
            ..RetryOptions::default()
        };
        let mut retries = Retries::default();
        let mut next = |kind| retries.next_wait(kind, None, &options, &environment);
        assert_eq!(next(RetryKind::Never), None);
        let mut waited = Duration::ZERO;
        while let Some(wait) = next(RetryKind::Loading) {
            waited += wait;
        }
        assert!(waited > Duration::from_secs(28) && waited <= Duration::from_secs(30), "{waited:?}");
        assert!(next(RetryKind::Counted).is_some() && next(RetryKind::Counted).is_some());
        assert_eq!(next(RetryKind::Counted), None);
        let none = RetryOptions { loading_seconds: Duration::ZERO, ..options };
        assert_eq!(Retries::default().next_wait(RetryKind::Loading, None, &none, &environment), None);
    }

    #[test]
    fn the_endpoints_retry_delay_is_respected_up_to_the_bound() {
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
