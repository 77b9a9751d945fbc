//! `cargo xtask soak`: runs a constant load on a cluster for hours.

use anyhow::Result;

use crate::chaos::program;
use crate::run::finish;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Duration in hours, possibly a fraction. The first ten minutes (of a run of less than an hour: its sixth part) are
    /// not evaluated.
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
    /// Profile of the build. Default: that of the shipped binary.
    #[arg(long, default_value = "dist")]
    profile: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    finish(program("soak", &arguments.profile)?.args(["--hours", &arguments.hours.to_string()]))
}
