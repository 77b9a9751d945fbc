//! `cargo xtask check-model`: checks the turn machine and the credit budget exhaustively, deeper than the tests do.

use anyhow::Result;

use crate::counts::passed;
use crate::run::cargo;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Maximum number of steps of a trace.
    #[arg(long, default_value_t = 14)]
    depth: u32,
    /// Search every reachable state, without a bound on depth and time.
    #[arg(long, conflicts_with = "depth")]
    whole: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // The tests interpret the maximum as unbounded.
    let depth = if arguments.whole { u32::MAX } else { arguments.depth };
    for (package, tests) in
        [("folio-credit", "budget::model_check::"), ("folio-conversation", "turn::tests::model_check::")]
    {
        let mut command = cargo();
        command.args(["test", "--release", "--package", package, "--lib", "--", tests, "--nocapture"]);
        command.env("FOLIO_CHECK_DEPTH", depth.to_string());
        passed(&mut command)?;
    }
    Ok(())
}
