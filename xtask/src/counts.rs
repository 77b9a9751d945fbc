//! Counts the test results of test binaries. A run without a test is a failure.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::run::display;

/// Runs `cargo test …`, prints its output, and requires that a test passes and none fails.
pub(crate) fn passed(command: &mut Command) -> Result<()> {
    eprintln!("xtask: {}", display(command));
    let mut child = command.stdout(Stdio::piped()).spawn().context("cargo cannot be started")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut counts = Counts::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        counts.add(&line);
        writeln!(std::io::stdout(), "{line}")?;
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{} failed ({status})", display(command));
    }
    counts.require_passed()
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Names of skipped tests, each with its reason.
    pub(crate) ignored: Vec<String>,
}

impl Counts {
    /// Returns an error if no test passed: a filter without a match must not look like a success.
    pub(crate) fn require_passed(&self) -> Result<()> {
        if self.passed == 0 {
            bail!("no test ran");
        }
        Ok(())
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored.extend(other.ignored);
    }

    pub(crate) fn add(&mut self, line: &str) {
        if let Some((name, reason)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ignored")) {
            self.ignored.push(format!("{name}{reason}"));
        }
        let Some(rest) = line.strip_prefix("test result: ") else { return };
        for part in rest.split(['.', ';']) {
            let mut words = part.split_whitespace();
            if let (Some(number), Some(what)) = (words.next().and_then(|word| word.parse::<u64>().ok()), words.next()) {
                match what {
                    "passed" => self.passed += number,
                    "failed" => self.failed += number,
                    _ => {}
                }
            }
        }
    }
}

/// Returns the number before a text, in the last line that contains it.
pub(crate) fn number_before(printed: &str, text: &str) -> Option<u64> {
    let line = printed.lines().rev().find(|line| line.contains(text))?;
    line.split(text).next()?.split_whitespace().last()?.parse().ok()
}

/// Returns the number in the last line that begins with a text.
pub(crate) fn number_after(printed: &str, text: &str) -> Option<u64> {
    printed.lines().rev().find_map(|line| line.strip_prefix(text))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_the_sum_over_the_binaries() {
        let mut counts = Counts::default();
        for line in [
            "test turn::a ... ok",
            "test turn::b ... ignored, needs a moon",
            "test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        ] {
            counts.add(line);
        }
        assert_eq!((counts.passed, counts.failed, counts.ignored), (7, 2, vec!["turn::b, needs a moon".to_owned()]));
    }

    #[test]
    fn passed_tests_are_read_from_the_reports() {
        let pytest = "......  [100%]\n80 passed, 1 warning in 4.76s\n";
        assert_eq!(number_before(pytest, " passed"), Some(80));
        let node = "ok 3 - a test\n# tests 65\n# pass 64\n# fail 1\n";
        assert_eq!(number_after(node, "# pass "), Some(64));
        assert_eq!((number_before("no tests ran", " passed"), number_after("", "# pass ")), (None, None));
    }
}
