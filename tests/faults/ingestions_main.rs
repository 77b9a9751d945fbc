//! The program of an ingestion under random faults: `cargo xtask ingestions` runs the program with 200 documents; `tests.rs` runs
//! it with few.

use std::process::ExitCode;

use clap::Parser;
use folio_tests::faults::ingestions::{Plan, run};
use folio_tests::faults::program::{FaultArguments, finish};

#[derive(Parser)]
#[command(
    about = "Ingests documents on a cluster under random faults and checks their passages, the index, the charges and deletions"
)]
struct Arguments {
    /// Number of documents.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(10..=5_000))]
    documents: u16,
    #[command(flatten)]
    faults: FaultArguments,
    /// Choose another embedding model after the ingestion.
    #[arg(long)]
    change_model: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let plan = Plan {
        seed: arguments.faults.seed(),
        documents: arguments.documents.into(),
        faults: arguments.faults.faults,
        cql_nodes: arguments.faults.cql_nodes(),
        changes_model: arguments.change_model,
    };
    let report = run(plan).await?;
    Ok(finish(&report, report.is_clean()))
}
