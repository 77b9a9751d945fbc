//! `cargo xtask migrations`: runs the test of concurrent migrations with more rounds.

use anyhow::Result;

use crate::counts::passed;
use crate::run::cargo;
use crate::servers;
use crate::tools::Install;

/// The test, which opens a keyspace that does not exist eight times at once on three CQL servers, in each round another
/// one.
const TEST: &str = "calls_succeed_after_the_loss_of_one_of_three_servers";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of rounds, each with eight concurrent migrations.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    Install { install: false }.require(servers::missing)?;
    let mut command = cargo();
    command.args(["test", "--package", "folio-storage-cql", "--test", "own_servers", TEST, "--", "--nocapture"]);
    passed(command.env("FOLIO_MIGRATION_ROUNDS", arguments.rounds.to_string()))
}
