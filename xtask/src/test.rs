//! `cargo xtask test`: runs every test of the project on real servers, and lists skipped tests with the reason.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, anyhow, bail};
use cargo_metadata::{Artifact, Message};
use folio_test_servers::Servers;

use crate::counts::{Counts, run_collected, run_counted};
use crate::deploy;
use crate::run::{cargo, finish};
use crate::servers;
use crate::tools::{Install, PDFTOPPM, TESSERACT, missing_of};

/// Test binaries that start clusters and store servers, the longest last. They run one after another, because two of them
/// together starve the servers of CPU. The other binaries run beside them.
const WITH_SERVERS: &[&str] = &["wire", "long_runs", "cql", "own_servers", "faults", "cluster"];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    install: Install,
    /// Run only tests whose name contains this text.
    filter: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let missing = || [missing_of(&[TESSERACT, PDFTOPPM]), servers::missing(), deploy::missing()].concat();
    arguments.install.require(missing)?;
    let deployed = if arguments.filter.is_none() { deploy::check(false)? } else { 0 };
    let mut counts = run_tests(arguments.filter.as_deref())?;
    counts.passed += deployed;
    for name in &counts.ignored {
        println!("skipped: {name}");
    }
    for command in &counts.failures {
        println!("failed: {command}");
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.ignored.len());
    counts.require_passed()
}

/// Starts the servers during the compilation, runs the tests, and stops the servers.
fn run_tests(filter: Option<&str>) -> Result<Counts> {
    let starting = std::thread::spawn(Servers::start);
    // Build everything once, so that the binaries that the tests start have the features and profile of the tests.
    finish(cargo().args(["build", "--workspace", "--all-targets", "--quiet"]))?;
    let binaries = test_binaries()?;
    let servers = starting.join().map_err(|_| anyhow!("starting the test servers panicked"))??;
    let threads = (2 * std::thread::available_parallelism()?.get()).to_string();
    let prepare = |command: &mut Command| {
        command.args(filter).envs(servers.variables()).env("RUST_TEST_THREADS", &threads);
    };
    let mut counts = run_in_lanes(binaries, prepare)?;
    let mut documentation = cargo();
    documentation.args(["test", "--workspace", "--doc", "--no-fail-fast", "--quiet"]);
    prepare(&mut documentation);
    counts.add_all(run_counted(&mut documentation)?);
    Ok(counts)
}

/// Returns the test binaries of the workspace, which are built.
fn test_binaries() -> Result<Vec<Artifact>> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-run", "--quiet", "--message-format", "json-render-diagnostics"]);
    let output = command.stderr(Stdio::inherit()).output().context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("the tests cannot be built ({})", output.status);
    }
    let mut binaries = Vec::new();
    for message in Message::parse_stream(output.stdout.as_slice()) {
        match message.context("cargo printed an unknown message")? {
            Message::CompilerArtifact(artifact) if artifact.profile.test && artifact.executable.is_some() => {
                binaries.push(artifact);
            }
            _ => {}
        }
    }
    Ok(binaries)
}

/// Runs [`WITH_SERVERS`] in one lane and the other binaries in another one.
fn run_in_lanes(binaries: Vec<Artifact>, prepare: impl Fn(&mut Command) + Sync) -> Result<Counts> {
    let rank = |artifact: &Artifact| {
        WITH_SERVERS.iter().position(|name| *name == artifact.target.name && artifact.target.is_test())
    };
    let (mut heavy, others): (Vec<_>, Vec<_>) = binaries.into_iter().partition(|artifact| rank(artifact).is_some());
    heavy.sort_by_key(rank);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| run_lane(others, &prepare));
        let mut counts = run_lane(heavy, &prepare)?;
        counts.add_all(beside.join().map_err(|_| anyhow!("a lane panicked"))??);
        Ok(counts)
    })
}

fn run_lane(binaries: Vec<Artifact>, prepare: &impl Fn(&mut Command)) -> Result<Counts> {
    let mut counts = Counts::default();
    for artifact in binaries {
        let executable = artifact.executable.context("a test binary without a file")?;
        let folder = artifact.manifest_path.parent().context("a manifest without a folder")?;
        let mut command = Command::new(&executable);
        // As `cargo test` runs it.
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
        prepare(&mut command);
        counts.add_all(run_collected(&mut command)?);
    }
    Ok(counts)
}
