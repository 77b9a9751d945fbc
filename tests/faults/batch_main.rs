//! The program of a batch under random faults: `cargo xtask batch` runs the program with 1,000 documents; `tests.rs` runs it
//! with few.

use std::process::ExitCode;

use clap::Parser;
use folio_tests::faults::batch::{Plan, run};

#[derive(Parser)]
#[command(about = "Runs a batch on a cluster under random faults and checks that each document has exactly one result")]
struct Arguments {
    /// Seed of all random choices. Default: random.
    #[arg(long, env = "FOLIO_SEED")]
    seed: Option<u64>,
    /// Number of documents.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(5..=10_000))]
    documents: u16,
    /// Minimum number of faults. Faults continue until the batch has ended.
    #[arg(long, default_value_t = 25)]
    faults: usize,
    /// Number of CQL servers. With 3, one of them is killed at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    cql_nodes: u8,
    /// Fill the rows of a stack instead of running a prompt: by a job with a short credit budget, by a second job, and for the last
    /// tenth of the documents automatically.
    #[arg(long)]
    stack: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let plan = Plan {
        seed: arguments.seed.unwrap_or_else(rand::random),
        documents: arguments.documents.into(),
        faults: arguments.faults,
        cql_nodes: arguments.cql_nodes.into(),
        is_stack: arguments.stack,
    };
    let report = run(plan).await?;
    println!("{report}");
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
