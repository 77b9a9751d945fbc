//! Points at which a test stops the process: after the reads of a conditional write, before its batch is sent.
//!
//! A decorator of the storage traits cannot stop at these points, because the reads and the batch are one call of a
//! trait.

/// Stops the process (SIGSTOP) if `FOLIO_LATE_WRITE` names this write: `append` or `decision`, with `#2` for the second
/// such write. When the test continues the process, the batch is sent late.
#[cfg(feature = "crash-points")]
pub(crate) fn stop_at(write: &str) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let wanted = std::env::var("FOLIO_LATE_WRITE").unwrap_or_default();
    let (name, nth) = wanted.split_once('#').unwrap_or((&wanted, "1"));
    if name != write || nth.parse() != Ok(SEEN.fetch_add(1, Ordering::SeqCst) + 1) {
        return;
    }
    let stopped = std::process::Command::new("sh").args(["-c", "kill -STOP $PPID"]).status();
    if let Err(error) = stopped {
        tracing::error!(%error, "the process cannot stop itself");
    }
    // The signal reaches the threads of a process one after the other.
    std::thread::sleep(std::time::Duration::from_millis(300));
}

#[cfg(not(feature = "crash-points"))]
pub(crate) const fn stop_at(_write: &str) {}
