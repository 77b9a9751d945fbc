//! Runs the test programs of the workspace, one for each core at a time.
//!
//! Most tests wait for servers, processes and timers, so that one program after another leaves half of the processor time unused.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use serde::Deserialize;

use crate::counts::Counts;
use crate::run::{cargo, output, root};

/// Test programs that take more than a minute each. They run first, so that the run does not end with one of them alone. `cql` is
/// the last, because it uses the same CQL server as `cluster`.
const LONG: [&str; 5] = ["cluster", "faults", "own_servers", "wire", "cql"];

/// Runs tests, and returns their results.
pub(crate) type Job = Box<dyn FnOnce() -> Result<Results> + Send>;

/// The results of jobs.
#[derive(Default)]
pub(crate) struct Results {
    pub(crate) counts: Counts,
    /// Names of the programs that failed.
    pub(crate) failed: Vec<String>,
}

/// A message of `cargo test --message-format=json`.
#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact {
        manifest_path: PathBuf,
        executable: Option<PathBuf>,
        profile: Profile,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the tests of the workspace, and returns a job for each test program: the long ones first, and then the largest ones, which
/// contain the whole product. `filter`: only tests whose name contains this text.
pub(crate) fn jobs(filter: Option<&str>, variables: &[(&str, OsString)]) -> Result<Vec<Job>> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-run", "--quiet", "--message-format=json-render-diagnostics"]);
    let folder = root().join("target/tests");
    std::fs::create_dir_all(&folder)?;
    let mut jobs: Vec<(_, Job)> = Vec::new();
    for (program, package) in executables(&output(&mut command)?)? {
        let size = program.metadata().with_context(|| format!("{} is missing", program.display()))?.len();
        let file = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (order, report) = (order(&file, size), folder.join(format!("{file}.txt")));
        let name = format!("{}: {file}", package.strip_prefix(root()).unwrap_or(&package).display());
        let mut command = Command::new(&program);
        command.args(filter).envs(variables.iter().cloned()).current_dir(package);
        jobs.push((order, Box::new(move || run(name, command, &report))));
    }
    jobs.sort_by_key(|(order, _)| *order);
    let mut documentation = cargo();
    documentation.args(["test", "--workspace", "--doc", "--no-fail-fast"]).args(filter);
    let report = folder.join("documentation.txt");
    let documentation: Job = Box::new(move || run("tests of the documentation".to_owned(), documentation, &report));
    Ok(jobs.into_iter().map(|(_, job)| job).chain([documentation]).collect())
}

/// Returns the order of a program, whose name ends with a hyphen and a hash.
fn order(file: &str, size: u64) -> (usize, Reverse<u64>) {
    let target = file.rsplit_once('-').map_or(file, |(target, _)| target);
    (LONG.iter().position(|long| *long == target).unwrap_or(LONG.len()), Reverse(size))
}

/// Returns the test programs in the messages of cargo, each with the folder of its package.
fn executables(messages: &str) -> Result<Vec<(PathBuf, PathBuf)>> {
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Message = serde_json::from_str(line).with_context(|| format!("not a message of cargo: {line}"))?;
        if let Message::CompilerArtifact { manifest_path, executable: Some(program), profile: Profile { test: true } } =
            message
        {
            let folder = manifest_path.parent().context("a manifest has no folder")?.to_owned();
            found.push((program, folder));
        }
    }
    Ok(found)
}

/// Runs the jobs, `at_once` at a time.
pub(crate) fn run_all(jobs: Vec<Job>, at_once: usize) -> Result<Results> {
    let waiting = Mutex::new(VecDeque::from(jobs));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> Result<Results> {
        let mut results = Results::default();
        while let Some(job) = next() {
            results.merge(job()?);
        }
        Ok(results)
    };
    let mut all = Results::default();
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            all.merge(worker.join().map_err(|_| anyhow!("a job of the tests panicked"))??);
        }
        Ok(())
    })?;
    Ok(all)
}

impl Results {
    pub(crate) fn merge(&mut self, other: Self) {
        self.counts.merge(other.counts);
        self.failed.extend(other.failed);
    }
}

/// Runs a test program, and prints its report when it ends.
fn run(name: String, command: Command, file: &Path) -> Result<Results> {
    let (results, report) = finished(name, command, file)?;
    writeln!(std::io::stdout(), "{report}")?;
    Ok(results)
}

/// Returns the results of a test program, and its report. `file`: for the output, because a process that a test started may keep a
/// pipe open.
fn finished(name: String, mut command: Command, file: &Path) -> Result<(Results, String)> {
    let output = File::create(file)?;
    let status = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).status();
    let status = status.with_context(|| format!("{name} cannot be started"))?;
    let output = std::fs::read(file)?;
    let output = String::from_utf8_lossy(&output);
    let mut results = Results::default();
    output.lines().for_each(|line| results.counts.add(line));
    let mut report = format!("     Running {name}\n{}\n", output.trim());
    if !status.success() {
        report += &format!("\nerror: {name} failed ({status})\n");
        results.failed.push(name);
    }
    Ok((results, report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_read_from_the_messages_of_cargo() {
        let artifact = |executable: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{{}},"profile":{{"test":{test},"debuginfo":1}},"executable":{executable}}}"#
            )
        };
        let messages = [
            artifact("null", false),
            artifact(r#""/w/target/debug/folio""#, false),
            artifact(r#""/w/target/debug/deps/a-1""#, true),
            r#"{"reason":"build-script-executed","package_id":"a"}"#.to_owned(),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        assert_eq!(executables(&messages.join("\n")).unwrap(), [("/w/target/debug/deps/a-1".into(), "/w/a".into())]);
        assert!(executables("a text").is_err());
    }

    #[test]
    fn long_programs_precede_large_ones() {
        let mut programs = [("api-12", 9), ("folio_cluster-3", 5), ("faults-4", 1), ("cluster-56", 2), ("none", 0)];
        programs.sort_by_key(|(name, size)| order(name, *size));
        let names = programs.map(|(name, _)| name);
        assert_eq!(names, ["cluster-56", "faults-4", "api-12", "folio_cluster-3", "none"]);
    }

    #[test]
    fn the_results_of_a_program_are_those_of_its_output_and_status() {
        let folder = tempfile::tempdir().unwrap();
        let finished = |name: &str, script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let (results, report) = finished(name.to_owned(), command, &folder.path().join(name)).unwrap();
            assert!(report.starts_with(&format!("     Running {name}\n")), "{report}");
            results
        };
        let passed =
            finished("a", "echo 'test result: ok. 4 passed; 0 failed;'; echo 'test b ... ignored, no moon' >&2");
        assert_eq!((passed.counts.passed, passed.counts.failed, passed.failed.len()), (4, 0, 0));
        assert_eq!(passed.counts.ignored, ["b, no moon"]);
        let failed = finished("b", "echo 'test result: FAILED. 3 passed; 2 failed;'; exit 101");
        assert_eq!((failed.counts.passed, failed.counts.failed), (3, 2));
        assert_eq!(failed.failed, ["b"]);
        assert_eq!(finished("c", "exit 1").failed, ["c"]);
    }

    #[test]
    fn all_jobs_run() {
        let job = |number: u64| -> Job {
            let counts = Counts { passed: number, ..Counts::default() };
            Box::new(move || Ok(Results { counts, failed: vec![number.to_string()] }))
        };
        let results = run_all((1..=9).map(job).collect(), 2).unwrap();
        assert_eq!((results.counts.passed, results.failed.len()), (45, 9));
        let fails: Job = Box::new(|| anyhow::bail!("not started"));
        assert!(run_all(vec![job(1), fails], 2).is_err());
    }
}
