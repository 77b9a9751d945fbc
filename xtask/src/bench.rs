//! `cargo xtask bench`: measures the performance of Folio in the profile of the shipped binary.

use anyhow::{Context as _, Result, ensure};
use clap::ValueEnum as _;

use crate::page;
use crate::run::{cargo, finish};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The measurement.
    what: Bench,
    /// Measure turns over this face, relative to gRPC (only with `turn`).
    #[arg(long)]
    face: Option<Face>,
    /// Number of passages (only with `index`; default: 100,000, with `--qdrant` 10,000).
    #[arg(long)]
    passages: Option<u32>,
    /// Measure the index on the server that `QDRANT_URL` names, or else on the engine of Qdrant behind a test server (only with
    /// `index`).
    #[arg(long)]
    qdrant: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Face {
    Grpc,
    GrpcWeb,
    Sse,
    Rest,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Bench {
    /// Turns per second, CPU per turn relative to a bare proxy, memory and reload time of idle conversations.
    Turn,
    /// Turns per second, added latency, takeover, memory and store operations of a cluster on Redis and a CQL server.
    Cluster,
    /// Lists and searches over 100,000 documents of one organization in CQL.
    Lists,
    /// Latency of writes to the embedded store while another tenant's prompts with 1,000 revisions, and threads of 32 MiB, are deleted.
    Deletion,
    /// Pages of a second that are read and rendered, bytes of word boxes, and the time to find the values of an extraction.
    Documents,
    /// Documents per second of batches with a model that answers at once, and the time that a job adds to its model call.
    Jobs,
    /// Rows of stacks per second with a model that answers at once, the time and CPU of a row, and the memory of the process.
    Stacks,
    /// Chunks of a second into an index of passages, latency of searches, memory, and the effect of another tenant's writes.
    Index,
    /// Latency that a tenant with many model calls, or with many streams, adds to the calls of another tenant.
    Fairness,
    /// The web page in Chromium: the first view of a list of 10,000 documents, and long tasks while 200 deltas a second arrive.
    Page,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(arguments.face.is_none() || matches!(arguments.what, Bench::Turn), "--face applies to `bench turn` only");
    let is_index = matches!(arguments.what, Bench::Index);
    ensure!(arguments.passages.is_none() || is_index, "--passages applies to `bench index` only");
    ensure!(!arguments.qdrant || is_index, "--qdrant applies to `bench index` only");
    if matches!(arguments.what, Bench::Page) {
        return page::bench();
    }
    let face = arguments.face.and_then(|face| face.to_possible_value());
    let face = face.iter().flat_map(|face| ["--face", face.get_name()]);
    let name = arguments.what.to_possible_value().context("the measurement has no name")?;
    finish(cargo().args(["build", "--profile", "dist", "--package", "folio", "--package", "llm-sim", "--bins"]))?;
    finish(
        cargo()
            .args(["run", "--profile", "dist", "--package", "folio-tests", "--bin", "bench", "--"])
            .arg(name.get_name())
            .args(face)
            .args(arguments.qdrant.then_some("--qdrant"))
            .args(arguments.passages.map(|passages| passages.to_string())),
    )
}
