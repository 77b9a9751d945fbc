//! `cargo xtask bench`: what Folio costs, in a release build. The measuring programs are binaries of the package `tests`.

use anyhow::Result;

use crate::run::{cargo, finish};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to measure.
    what: Bench,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Bench {
    /// Turns per second and CPU per turn beside a bare proxy; memory and wake time of idle conversations.
    Turn,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let program = match arguments.what {
        Bench::Turn => "bench-turn",
    };
    finish(cargo().args(["build", "--release", "--package", "folio", "--package", "llm-sim", "--bins"]))?;
    finish(cargo().args(["run", "--release", "--package", "folio-tests", "--bin", program]))
}
