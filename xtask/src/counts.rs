//! Counts the test results of test binaries. A run without a test is a failure.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::run::display;

/// Runs a command that runs tests, prints its output line by line, and counts the results.
pub(crate) fn run_counted(command: &mut Command) -> Result<Counts> {
    eprintln!("xtask: {}", display(command));
    let mut child = command.stdout(Stdio::piped()).spawn().context("the tests cannot be started")?;
    let output = child.stdout.take().context("the tests have no output")?;
    let mut counts = Counts::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        counts.add(&line);
        writeln!(std::io::stdout(), "{line}")?;
    }
    counts.end(command, child.wait()?);
    Ok(counts)
}

/// Runs a test binary, prints its output at its end so that the outputs of two do not mix, and counts the results.
pub(crate) fn run_collected(command: &mut Command) -> Result<Counts> {
    eprintln!("xtask: {}", display(command));
    let output = command.stderr(Stdio::inherit()).output().context("the tests cannot be started")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut counts = Counts::default();
    text.lines().for_each(|line| counts.add(line));
    counts.end(command, output.status);
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "\n     Ran {}", display(command))?;
    stdout.write_all(text.as_bytes())?;
    Ok(counts)
}

pub(crate) fn passed(command: &mut Command) -> Result<()> {
    run_counted(command)?.require_passed()
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Names of skipped tests, each with its reason.
    pub(crate) ignored: Vec<String>,
    /// Commands that failed, each with its exit status.
    pub(crate) failures: Vec<String>,
}

impl Counts {
    /// Returns an error if a test or command failed, or if no test passed: a filter without a match must not look like a
    /// success.
    pub(crate) fn require_passed(&self) -> Result<()> {
        if self.failed > 0 || !self.failures.is_empty() {
            bail!("tests failed: {}", self.failures.join(", "));
        }
        if self.passed == 0 {
            bail!("no test ran");
        }
        Ok(())
    }

    pub(crate) fn add_all(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored.extend(other.ignored);
        self.failures.extend(other.failures);
    }

    fn end(&mut self, command: &Command, status: ExitStatus) {
        if !status.success() {
            self.failures.push(format!("{} ({status})", display(command)));
        }
    }

    fn add(&mut self, line: &str) {
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
        assert_eq!((counts.passed, counts.failed, &counts.ignored), (7, 2, &vec!["turn::b, needs a moon".to_owned()]));
        assert!(counts.require_passed().is_err());
    }

    #[test]
    fn a_binary_that_dies_after_its_results_fails() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo 'test result: ok. 4 passed; 0 failed; 0 ignored'; exit 134"]);
        let counts = run_collected(&mut command).unwrap();
        assert_eq!((counts.passed, counts.failed, counts.failures.len()), (4, 0, 1));
        assert!(counts.require_passed().is_err());
        assert!(Counts::default().require_passed().is_err(), "no test ran");
    }
}
