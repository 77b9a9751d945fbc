//! `cargo xtask test`: every test of the project, and what was skipped and why.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, finish, shown};
use crate::tools::{PDFTOPPM, TESSERACT, require};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Install what the tests need and the machine lacks (by the system's package manager).
    #[arg(long)]
    install: bool,
    /// Only tests whose name contains this.
    filter: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    require(&[&TESSERACT, &PDFTOPPM], arguments.install)?;
    // The processes that the tests start are built with the very features and profile of the tests' own build.
    finish(cargo().args(["build", "--workspace", "--all-targets", "--quiet"]))?;
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(&arguments.filter);
    eprintln!("xtask: {}", shown(&command));
    let mut child = command.stdout(Stdio::piped()).spawn().context("cargo cannot be started")?;
    let mut counts = Counts::default();
    let output = child.stdout.take().context("cargo has no output")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        counts.add(&line);
        writeln!(std::io::stdout(), "{line}")?;
    }
    let status = child.wait()?;
    for name in &counts.ignored {
        println!("skipped: {name}");
    }
    if counts.ignored.is_empty() {
        println!("skipped: nothing");
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.ignored.len());
    if !status.success() || counts.failed > 0 {
        bail!("tests failed ({status})");
    }
    if counts.passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

/// What the test binaries said.
#[derive(Default)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: Vec<String>,
}

impl Counts {
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
        assert_eq!((counts.passed, counts.failed, counts.ignored), (7, 2, vec!["turn::b, needs a moon".to_owned()]));
    }
}
