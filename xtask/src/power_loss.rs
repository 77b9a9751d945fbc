//! `cargo xtask power-loss`: runs the test of the embedded store with more points at which power is lost.

use anyhow::Result;

use crate::counts::passed;
use crate::run::cargo;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of random points, each with another choice of lost, torn and reordered writes.
    #[arg(long, default_value_t = 5_000)]
    points: usize,
    /// Number of large writes after the scenario: they cause flushes and compactions.
    #[arg(long, default_value_t = 400)]
    bulk: usize,
    /// Seed of all random choices. Default: a new one, which is printed.
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut command = cargo();
    command.args(["test", "--release", "--package", "folio-storage-embedded", "--test", "embedded", "power_loss::"]);
    command.args(["--", "--nocapture"]);
    command.env("FOLIO_POWER_POINTS", arguments.points.to_string());
    command.env("FOLIO_POWER_BULK", arguments.bulk.to_string());
    if let Some(seed) = arguments.seed {
        command.env("FOLIO_SEED", seed.to_string());
    }
    passed(&mut command)
}
