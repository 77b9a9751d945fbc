//! The program of a batch under random faults: `cargo xtask batch` runs the program with 1,000 documents; `tests.rs` runs it
//! with few.

use std::process::ExitCode;

use clap::Parser;
use folio_tests::faults::batch::{Plan, run};
use folio_tests::faults::program::{FaultArguments, finish};

#[derive(Parser)]
#[command(about = "Runs a batch on a cluster under random faults and checks that each document has exactly one result")]
struct Arguments {
    /// Number of documents.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(5..=10_000))]
    documents: u16,
    #[command(flatten)]
    faults: FaultArguments,
    /// Fill the rows of a stack instead of running a prompt: by a job with a short credit budget, by a second job, and for the last
    /// tenth of the documents automatically.
    #[arg(long)]
    stack: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let plan = Plan {
        seed: arguments.faults.seed(),
        documents: arguments.documents.into(),
        faults: arguments.faults.faults,
        cql_nodes: arguments.faults.cql_nodes(),
        is_stack: arguments.stack,
    };
    let report = run(plan).await?;
    Ok(finish(&report, report.is_clean()))
}
