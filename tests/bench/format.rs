//! Formatting of measurements.

use std::time::Duration;

pub(crate) fn row(what: &str, bare: &str, folio: &str) {
    eprintln!("{what:<60}{bare:>14}{folio:>14}");
}

pub(crate) fn micros(duration: Duration) -> String {
    format!("{} µs", duration.as_micros())
}

pub(crate) fn kib(bytes: f64) -> String {
    format!("{:.1} KiB", bytes / 1024.0)
}

pub(crate) struct Percentiles {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

impl Percentiles {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let percentile = |share: f64| {
            let at = ((times.len() as f64 - 1.0) * share).round() as usize;
            times.get(at).copied().unwrap_or_default()
        };
        Self { p50: percentile(0.50), p99: percentile(0.99) }
    }
}
