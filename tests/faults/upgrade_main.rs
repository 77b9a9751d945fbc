//! The program of the upgrade under traffic: `cargo xtask upgrade` runs it with two versions, the tests with one.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use folio_tests::faults::program::finish;
use folio_tests::faults::upgrade::{Plan, run};
use folio_tests::harness::process::binary;

#[derive(Parser)]
#[command(about = "Replaces the processes of a cluster by another version under load, and checks its invariants")]
struct Arguments {
    /// Program `folio` of the old version.
    #[arg(long)]
    old: PathBuf,
    /// Seed of all random choices. Default: random.
    #[arg(long, env = "FOLIO_SEED")]
    seed: Option<u64>,
    /// Minimum number of approvals between two replacements.
    #[arg(long, default_value_t = 100)]
    approvals: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let Arguments { old, seed, approvals } = Arguments::parse();
    let plan = Plan { seed: seed.unwrap_or_else(rand::random), old, new: binary("folio"), approvals };
    let report = run(plan).await?;
    Ok(finish(&report, report.is_clean()))
}
