//! Formatting of measurements.

use std::time::Duration;

/// Prints a row of the table.
pub(crate) fn row(what: &str, bare: &str, folio: &str) {
    eprintln!("{what:<60}{bare:>14}{folio:>14}");
}

/// Formats a duration in microseconds.
pub(crate) fn micros(duration: Duration) -> String {
    format!("{} µs", duration.as_micros())
}

/// Formats bytes in KiB.
pub(crate) fn kib(bytes: f64) -> String {
    format!("{:.1} KiB", bytes / 1024.0)
}

/// Returns the percentile of sorted values.
pub(crate) fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let at = ((sorted.len() as f64 - 1.0) * share).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}
