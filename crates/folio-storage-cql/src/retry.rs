//! How often a conditional write is tried again after it was looked at.

use std::time::Duration;

use folio_types::{Code, Error, Reason};

/// Attempts of one conditional write against others that want the same partition.
pub(crate) const ATTEMPTS: u32 = 12;

/// Waits before the next attempt: longer each time, and not as long as others do. The first repetition follows at once.
pub(crate) async fn pause(attempt: u32, random: u128) {
    if attempt == 0 {
        return;
    }
    let most = 5_u64 << attempt.min(6);
    let milliseconds = most / 2 + u64::try_from(random % u128::from(most)).unwrap_or(0) / 2;
    // Others are at work on the same partition: there is nothing to be woken by.
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Too many others wanted the same.
pub(crate) fn contended(what: &str) -> Error {
    Error::new(
        Code::Aborted,
        Reason::VersionConflict,
        format!("{what} is wanted by too many writes at once; repeat it"),
    )
}
