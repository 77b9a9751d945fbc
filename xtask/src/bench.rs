//! `cargo xtask bench`: what Folio costs, in a release build. The measuring program is a binary of the package `tests`.

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
    /// Gateways and nodes on Redis and a CQL server: turns per second, added latency, takeover, operations of the stores.
    Cluster,
    /// Lists and searches over 100,000 documents of one organization in CQL.
    Lists,
    /// What a tenant that floods a model endpoint adds to the calls of a quiet one.
    Fairness,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let what = match arguments.what {
        Bench::Turn => "turn",
        Bench::Cluster => "cluster",
        Bench::Lists => "lists",
        Bench::Fairness => "fairness",
    };
    finish(cargo().args(["build", "--release", "--package", "folio", "--package", "llm-sim", "--bins"]))?;
    finish(cargo().args(["run", "--release", "--package", "folio-tests", "--bin", "bench", "--", what]))
}
