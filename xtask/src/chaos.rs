//! `cargo xtask chaos`: runs the random faults of the tests for longer.

use anyhow::Result;

use crate::run::{cargo, finish};
use crate::servers;
use crate::tools::Install;

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

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    Install { install: false }.require(servers::missing)?;
    finish(cargo().args("build --package folio --package llm-sim --package folio-tests --bins".split(' ')))?;
    let mut command = cargo();
    command.args(["run", "--package", "folio-tests", "--bin", "chaos", "--"]);
    command.args(["--minutes", &arguments.minutes.to_string(), "--cql-nodes", &arguments.cql_nodes.to_string()]);
    if let Some(seed) = arguments.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    finish(&mut command)
}
