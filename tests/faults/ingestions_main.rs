//! The program of an ingestion under random faults: `cargo xtask ingestions` runs the program with 200 documents; `tests.rs` runs
//! it with few.

use std::process::ExitCode;

use clap::Parser;
use folio_tests::faults::ingestions::{Plan, run};

#[derive(Parser)]
#[command(
    about = "Ingests documents on a cluster under random faults and checks their passages, the index, the charges and deletions"
)]
struct Arguments {
    /// Seed of all random choices. Default: random.
    #[arg(long, env = "FOLIO_SEED")]
    seed: Option<u64>,
    /// Number of documents.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(10..=5_000))]
    documents: u16,
    /// Minimum number of faults. Faults continue until the ingestion has ended.
    #[arg(long, default_value_t = 25)]
    faults: usize,
    /// Number of CQL servers. With 3, one of them is killed at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    cql_nodes: u8,
    /// Choose another embedding model after the ingestion.
    #[arg(long)]
    change_model: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let plan = Plan {
        seed: arguments.seed.unwrap_or_else(rand::random),
        documents: arguments.documents.into(),
        faults: arguments.faults,
        cql_nodes: arguments.cql_nodes.into(),
        changes_model: arguments.change_model,
    };
    let report = run(plan).await?;
    println!("{report}");
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
