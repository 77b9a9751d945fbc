//! `cargo xtask mutants`: mutates the pure crates and compares the surviving mutants with the explained ones.
//!
//! cargo-mutants changes one expression at a time and runs the tests of the changed crate. A mutant that no test
//! catches must be explained in `docs/mutants.md`, in a row `` | `mutant` | explanation | ``. Line numbers are not
//! compared.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::run::{cargo, display, finish, root, tools_folder};
use crate::tools::{Install, MUTANTS, missing_of};

/// Pure code (decisions without I/O) and the unit tests that must catch its mutants.
struct Part {
    name: &'static str,
    /// True: only `--modules` tests it.
    is_extra: bool,
    sources: &'static [&'static str],
    /// Arguments of the test program: parts of the names of the tests to run. Empty: all unit tests of the crate.
    tests: &'static [&'static str],
}

const PARTS: &[Part] = &[
    Part {
        name: "crates",
        is_extra: false,
        sources: &[
            "crates/folio-breaker/src/**/*.rs",
            "crates/folio-credit/src/**/*.rs",
            "crates/folio-history/src/**/*.rs",
            "crates/folio-resources/src/**/*.rs",
            "crates/folio-types/src/**/*.rs",
        ],
        tests: &[],
    },
    // The remaining unit tests of these crates run actors, for many seconds.
    Part {
        name: "modules",
        is_extra: true,
        sources: &[
            "crates/folio-metering/src/wallet.rs",
            "crates/folio-cluster/src/placement.rs",
            "crates/folio-permits/src/scheduler.rs",
            "crates/folio-conversation/src/turn/**/*.rs",
            "crates/folio-conversation/src/audit/**/*.rs",
        ],
        // The model check takes longer than all other tests together, and each mutant would run it.
        tests: &["wallet::", "placement::", "scheduler::", "turn::", "audit::", "--skip", "model_check"],
    },
];

const TESTS: &[&str] = &["**/tests.rs", "**/tests/**"];

/// Number of cargo-mutants processes at once. Each has its own target folder, because a folder admits one build at a time.
const SHARDS: usize = 2;

const EXPLAINED: &str = "docs/mutants.md";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Maximum duration in minutes. When it has passed, the results so far are reported.
    #[arg(long, default_value_t = 180)]
    minutes: u64,
    /// Also the pure modules of other crates, such as the turn machine. Takes about as long again.
    #[arg(long)]
    modules: bool,
    /// Only mutants whose name (`path: description`) matches this regular expression. Default: all. cargo-mutants
    /// always tests the deletion of fields.
    #[arg(long, default_value = "")]
    only: String,
    #[command(flatten)]
    install: Install,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    arguments.install.require(|| missing_of(&[MUTANTS]))?;
    let end = Instant::now() + Duration::from_secs(arguments.minutes * 60);
    let (mut survivors, mut caught, mut complete) = (BTreeSet::new(), BTreeSet::new(), true);
    for part in PARTS.iter().filter(|part| arguments.modules || !part.is_extra) {
        let output = tools_folder().join("mutants").join(part.name);
        let _ = std::fs::remove_dir_all(&output);
        let mut commands = Vec::new();
        for shard in 0..SHARDS {
            let output = output.join(shard.to_string());
            std::fs::create_dir_all(&output)?;
            commands.push(command(part, shard, &arguments.only, &output)?);
        }
        complete &= bounded(&mut commands, end)?;
        for shard in 0..SHARDS {
            let results = output.join(shard.to_string()).join("mutants.out");
            survivors.append(&mut names(&results.join("missed.txt"))?);
            caught.append(&mut names(&results.join("caught.txt"))?);
        }
    }
    let text =
        std::fs::read_to_string(root().join(EXPLAINED)).with_context(|| format!("{EXPLAINED} is not readable"))?;
    let explained = explained(&text);
    println!("{} mutants caught, {} survived, {} explained", caught.len(), survivors.len(), explained.len());
    if !complete {
        println!("stopped after {} minutes: not every mutant was tested", arguments.minutes);
    }
    verdict(&survivors, &caught, &explained)
}

fn command(part: &Part, shard: usize, only: &str, output: &Path) -> Result<Command> {
    let mut command = cargo();
    let program = MUTANTS.path().context("cargo-mutants is not found")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = program.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&path));
    // Every mutant is compiled and linked: without debug information, and with dependencies from the run before.
    command
        .env("PATH", std::env::join_paths(folders)?)
        .env("CARGO_PROFILE_DEV_DEBUG", "none")
        .env("CARGO_INCREMENTAL", "1")
        // A failed property has caught its mutant, whatever the size of its input.
        .env("PROPTEST_MAX_SHRINK_ITERS", "0")
        .env("CARGO_TARGET_DIR", tools_folder().join("mutants").join(format!("target-{shard}")))
        .args(["mutants", "--no-times", "--colors", "never", "--minimum-test-timeout", "20"])
        .args(["--shard", &format!("{shard}/{SHARDS}"), "--sharding", "round-robin"])
        .args(["--re", only, "--output"])
        .arg(output)
        .args(part.sources.iter().flat_map(|file| ["--file", file]))
        .args(TESTS.iter().flat_map(|file| ["--exclude", file]))
        .args(["--", "--lib", "--"])
        .args(part.tests);
    Ok(command)
}

/// Runs commands side by side until `end` at the latest. Returns true if all ended before. Surviving mutants are not an
/// error.
fn bounded(commands: &mut [Command], end: Instant) -> Result<bool> {
    let mut running = Vec::new();
    for command in commands {
        eprintln!("xtask: {}", display(command));
        running.push(command.spawn().context("cargo cannot be started")?);
    }
    let mut failure = None;
    while !running.is_empty() && failure.is_none() && Instant::now() < end {
        let mut still = Vec::new();
        for mut child in running {
            match child.try_wait()?.map(|status| (status, status.code())) {
                None => still.push(child),
                // 2: mutants survived; 3: tests of a mutant timed out. Any other status is a failure of cargo-mutants.
                Some((_, Some(0 | 2 | 3))) => {}
                Some((status, _)) => failure = Some(status),
            }
        }
        running = still;
        std::thread::sleep(Duration::from_millis(500));
    }
    let complete = running.is_empty();
    for mut child in running {
        interrupt(&mut child)?;
    }
    match failure {
        Some(status) => bail!("cargo mutants failed ({status})"),
        None => Ok(complete),
    }
}

/// Interrupts cargo-mutants, which ends its own children.
fn interrupt(child: &mut Child) -> Result<()> {
    finish(Command::new("kill").args(["-INT", &child.id().to_string()]))?;
    child.wait()?;
    Ok(())
}

/// Returns the mutants in a result file, without line numbers. A missing file contains none.
fn names(file: &Path) -> Result<BTreeSet<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text.lines().map(without_position).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeSet::new()),
        Err(error) => Err(error).with_context(|| format!("{} is not readable", file.display())),
    }
}

/// Removes line and column from `a.rs:12:5: replace b`.
fn without_position(name: &str) -> String {
    let (file, rest) = name.split_once(':').unwrap_or((name, ""));
    let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ':');
    format!("{file}: {}", rest.trim())
}

/// Returns the mutants that the document explains: rows with code in the first column and text in the second. A table
/// escapes `|` as `\|`.
fn explained(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.filter(|(_, reason)| reason.trim_end_matches(['|', ' ']).len() > 10)
        .map(|(name, _)| name.replace("\\|", "|"))
        .collect()
}

/// Fails if a survivor has no explanation, or an explained mutant was caught.
fn verdict(survivors: &BTreeSet<String>, caught: &BTreeSet<String>, explained: &BTreeSet<String>) -> Result<()> {
    let unexplained: Vec<_> = survivors.difference(explained).map(String::as_str).collect();
    // Two mutants of one function may have the same name at different lines: one caught, the other not.
    let stale: Vec<_> =
        explained.intersection(caught).filter(|name| !survivors.contains(*name)).map(String::as_str).collect();
    if !unexplained.is_empty() {
        bail!("surviving mutants without an explanation in {EXPLAINED}:\n{}", unexplained.join("\n"));
    }
    if !stale.is_empty() {
        bail!("explained mutants that tests catch (remove the rows from {EXPLAINED}):\n{}", stale.join("\n"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_survivor_needs_an_explanation_and_an_explanation_a_survivor() {
        let known =
            explained("| mutant | reason |\n|---|---|\n| `a.rs: replace b` | equal for every input |\n| `c: d` | |\n");
        assert_eq!(known, set(&["a.rs: replace b"]));
        assert_eq!(without_position("a.rs:12:5: replace b"), "a.rs: replace b");
        assert!(verdict(&set(&["a.rs: replace b"]), &set(&[]), &known).is_ok());
        assert!(verdict(&set(&["c: d"]), &set(&[]), &known).is_err());
        assert!(verdict(&set(&[]), &set(&["a.rs: replace b"]), &known).is_err());
        assert!(verdict(&set(&[]), &set(&[]), &known).is_ok(), "an interrupted run did not test it");
    }
}
