//! `cargo xtask check-model`: the exhaustive check of the turn machine, deeper than in the tests.

use anyhow::Result;

use crate::counts::passed;
use crate::run::cargo;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Steps of the longest trace.
    #[arg(long, default_value_t = 14)]
    depth: u32,
    /// Search to the last state, however long that takes.
    #[arg(long, conflicts_with = "depth")]
    whole: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // The tests read the greatest number as no bound.
    let depth = if arguments.whole { u32::MAX } else { arguments.depth };
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
    command.env("FOLIO_CHECK_DEPTH", depth.to_string());
    passed(&mut command)
}
