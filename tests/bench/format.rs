//! Formatting of measurements.

use std::time::Duration;

use anyhow::{Result, ensure};

pub(crate) fn row(what: &str, bare: &str, folio: &str) {
    eprintln!("{what:<60}{bare:>14}{folio:>14}");
}

/// The aims that measurements missed.
#[derive(Debug, Default)]
pub(crate) struct Aims(Vec<String>);

impl Aims {
    /// Records whether a measurement meets its aim. Returns the end of its row in a table.
    pub(crate) fn check(&mut self, what: &str, is_met: bool) -> &'static str {
        if is_met {
            return "";
        }
        self.0.push(what.trim().to_owned());
        "  missed"
    }

    /// Prints the row of a measurement that has an aim.
    pub(crate) fn row(&mut self, what: &str, bare: &str, folio: &str, is_met: bool) {
        let missed = self.check(what, is_met);
        eprintln!("{what:<60}{bare:>14}{folio:>14}{missed}");
    }

    /// Returns the names of the missed aims, for the field `missed` of the JSON.
    pub(crate) fn missed(&self) -> &[String] {
        &self.0
    }

    /// Returns an error if an aim was missed, after the JSON is printed: the exit status of the program states it.
    pub(crate) fn finish(&self) -> Result<()> {
        ensure!(self.0.is_empty(), "missed aims: {}", self.0.join("; "));
        Ok(())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_aim_is_in_the_table_and_in_the_json_and_fails_the_program() {
        let mut aims = Aims::default();
        assert_eq!(aims.check("met", true), "");
        aims.finish().unwrap();
        assert_eq!(aims.check("  too slow", false), "  missed");
        assert_eq!(serde_json::json!({ "missed": aims.missed() }).to_string(), r#"{"missed":["too slow"]}"#);
        assert_eq!(aims.finish().unwrap_err().to_string(), "missed aims: too slow");
    }
}
