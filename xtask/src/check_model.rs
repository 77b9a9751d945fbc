//! `cargo xtask check-model`: the exhaustive check of the turn machine, deeper than in the tests.

use anyhow::Result;

use crate::counts::passed;
use crate::run::cargo;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Steps of the longest trace; none: without a bound.
    #[arg(long)]
    depth: Option<u32>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut command = cargo();
    command.args([
        "test",
        "--release",
        "--package",
        "folio-conversation",
        "--lib",
        "--",
        "turn::tests::model_check::",
        "--nocapture",
    ]);
    command.env("FOLIO_CHECK_DEPTH", arguments.depth.unwrap_or(u32::MAX).to_string());
    passed(&mut command)
}
