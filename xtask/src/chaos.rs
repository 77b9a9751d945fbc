//! `cargo xtask chaos`, `cargo xtask batch`, `cargo xtask stack`, `cargo xtask ingestions`, `cargo xtask outage` and
//! `cargo xtask migrations`: run the fault programs of the tests for longer.

use std::process::Command;

use anyhow::Result;

use crate::run::{cargo, finish};
use crate::servers;
use crate::tools::Install;

/// Minimum numbers of approvals and faults per minute of a valid run.
const APPROVALS_PER_MINUTE: u64 = 100;
const FAULTS_PER_MINUTE: u64 = 5;
/// Maximum 99th percentile of an approval while one of three CQL servers is stopped, in seconds.
const P99_SECONDS: &str = "3";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Minimum duration in minutes.
    #[arg(long, default_value_t = 10)]
    minutes: u64,
    /// Seed of all random choices. Default: a new one, which is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of CQL servers. With three, one is killed at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    cql_nodes: u8,
}

#[derive(clap::Args)]
pub(crate) struct BatchArguments {
    /// Number of documents.
    #[arg(long, default_value_t = 1_000)]
    documents: u16,
    /// Seed of all random choices. Default: a new one, which is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of CQL servers. With three, one is killed at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    cql_nodes: u8,
}

#[derive(clap::Args)]
pub(crate) struct IngestionArguments {
    /// Number of documents.
    #[arg(long, default_value_t = 200)]
    documents: u16,
    /// Minimum number of faults.
    #[arg(long, default_value_t = 25)]
    faults: usize,
    /// Seed of all random choices. Default: a new one, which is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of CQL servers. With three, one is killed at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    cql_nodes: u8,
}

#[derive(clap::Args)]
pub(crate) struct OutageArguments {
    /// Seed of all random choices. Default: a new one, which is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Suspend a server for this number of seconds. May be repeated.
    #[arg(long, default_values_t = [8, 60])]
    suspend: Vec<u64>,
    /// Minimum number of approvals around each stop.
    #[arg(long, default_value_t = 200)]
    approvals: usize,
    /// Number of CQL servers, 1 to 3. With 1, no server answers during a stop.
    #[arg(long, default_value_t = 3)]
    cql_nodes: u8,
    /// Profile of the build. Default: that of the shipped binary.
    #[arg(long, default_value = "dist")]
    profile: String,
}

#[derive(clap::Args)]
pub(crate) struct MigrationArguments {
    /// Number of empty keyspaces.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
}

/// Migrates new keyspaces of three CQL servers by eight processes at once.
pub(crate) fn migrations(arguments: &MigrationArguments) -> Result<()> {
    let mut command = program("outage", "dev")?;
    finish(command.args(["--overlapping", "0", "--migrations", &arguments.rounds.to_string()]))
}

/// The results that a batch under random faults has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchResults {
    Extractions,
    /// Rows of a stack.
    Rows,
}

/// Runs a batch on three nodes under random faults.
pub(crate) fn batch(arguments: &BatchArguments, results: BatchResults) -> Result<()> {
    let mut command = program("batch", "dev")?;
    command.args(["--documents", &arguments.documents.to_string()]);
    command.args(["--cql-nodes", &arguments.cql_nodes.to_string()]);
    if let Some(seed) = arguments.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if results == BatchResults::Rows {
        command.arg("--stack");
    }
    finish(&mut command)
}

/// Ingests documents on three nodes under random faults, and embeds them again with another model.
pub(crate) fn ingestions(arguments: &IngestionArguments) -> Result<()> {
    let mut command = program("ingestions", "dev")?;
    command.arg("--change-model");
    command.args(["--documents", &arguments.documents.to_string()]);
    command.args(["--faults", &arguments.faults.to_string()]);
    command.args(["--cql-nodes", &arguments.cql_nodes.to_string()]);
    if let Some(seed) = arguments.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    finish(&mut command)
}

pub(crate) fn outage(arguments: &OutageArguments) -> Result<()> {
    let mut command = program("outage", &arguments.profile)?;
    command.args(["--kill", "--approvals", &arguments.approvals.to_string()]);
    if arguments.cql_nodes == 3 {
        command.args(["--p99-seconds", P99_SECONDS]);
    }
    command.args(["--cql-nodes", &arguments.cql_nodes.to_string()]);
    for seconds in &arguments.suspend {
        command.args(["--suspend", &seconds.to_string()]);
    }
    if let Some(seed) = arguments.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    finish(&mut command)
}

/// Builds the processes that a program of the tests starts. Returns the command of the program.
pub(crate) fn program(name: &str, profile: &str) -> Result<Command> {
    Install { install: false }.require(servers::missing)?;
    let packages = "--package folio --package llm-sim --package folio-tests --bins".split(' ');
    finish(cargo().args(["build", "--profile", profile]).args(packages))?;
    let mut command = cargo();
    command.args(["run", "--profile", profile, "--package", "folio-tests", "--bin", name, "--"]);
    Ok(command)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut command = program("chaos", "dev")?;
    let minutes = arguments.minutes;
    for (flag, number) in [
        ("--minutes", minutes),
        ("--approvals", minutes * APPROVALS_PER_MINUTE),
        ("--faults", minutes * FAULTS_PER_MINUTE),
        ("--cql-nodes", arguments.cql_nodes.into()),
    ] {
        command.args([flag, &number.to_string()]);
    }
    if let Some(seed) = arguments.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    finish(&mut command)
}
