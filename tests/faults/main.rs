//! The program of random faults: `cargo xtask chaos`, and what the tests run shortly.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use folio_tests::faults::run::{Plan, run};

#[derive(Parser)]
#[command(about = "Random faults under load, and an independent checker")]
struct Arguments {
    /// What all random choices follow from; none: a fresh one.
    #[arg(long, env = "FOLIO_SEED")]
    seed: Option<u64>,
    /// How long at least.
    #[arg(long, default_value_t = 0)]
    minutes: u64,
    /// Faults at least.
    #[arg(long, default_value_t = 25)]
    faults: usize,
    /// Approvals at least.
    #[arg(long, default_value_t = 300)]
    approvals: usize,
    /// CQL servers; with 3 one of them is killed at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    cql_nodes: u8,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let plan = Plan {
        seed: arguments.seed.unwrap_or_else(rand::random),
        faults: arguments.faults,
        approvals: arguments.approvals,
        time: Duration::from_secs(60 * arguments.minutes),
        cql_nodes: arguments.cql_nodes.into(),
    };
    let wanted = plan.clone();
    let report = run(plan).await?;
    println!("{report}");
    let enough = report.approvals >= wanted.approvals && report.faults >= wanted.faults;
    let clean = report.violations.is_empty() && report.complaints.is_empty();
    Ok(if clean && enough { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
