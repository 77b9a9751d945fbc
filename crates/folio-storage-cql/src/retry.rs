//! Retries of conditional writes.

use std::time::Duration;

use folio_types::Error;

/// Maximum number of attempts of one conditional write under contention.
pub(crate) const ATTEMPTS: u32 = 12;
/// Maximum number of attempts with an unknown outcome; the last one returns its error.
pub(crate) const UNKNOWN_OUTCOMES_MAX: u32 = 3;

/// Waits before the next attempt, with exponential back-off and jitter. Returns immediately after the first attempt.
pub(crate) async fn pause(attempt: u32, random: u128) {
    if attempt == 0 {
        return;
    }
    let max = 5_u64 << attempt.min(6);
    let milliseconds = max / 2 + u64::try_from(random % u128::from(max)).unwrap_or(0) / 2;
    // The competing writers are other processes, which send no notification.
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

pub(crate) fn contended(what: &str) -> Error {
    Error::contended(format!("{what} has too many concurrent writes; retry later"))
}
