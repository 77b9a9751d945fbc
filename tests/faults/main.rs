//! The program of the random fault test: `cargo xtask chaos` runs the program for minutes; `tests.rs` runs the same
//! test with few faults.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use folio_tests::faults::run::{Plan, run};

#[derive(Parser)]
#[command(about = "Injects random faults into a cluster under load and checks its invariants independently")]
struct Arguments {
    /// Seed of all random choices. Default: random.
    #[arg(long, env = "FOLIO_SEED")]
    seed: Option<u64>,
    /// Minimum duration in minutes.
    #[arg(long, default_value_t = 0)]
    minutes: u64,
    /// Minimum number of faults.
    #[arg(long, default_value_t = 25)]
    faults: usize,
    /// Minimum number of approvals.
    #[arg(long, default_value_t = 300)]
    approvals: usize,
    /// Number of CQL servers. With 3, one of them is killed at a time.
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
    let (approvals, faults) = (report.approvals, report.events.1);
    let is_complete = approvals >= wanted.approvals && faults >= wanted.faults;
    if !is_complete {
        let Plan { approvals: min_approvals, faults: min_faults, .. } = &wanted;
        println!("incomplete: {approvals} of {min_approvals} approvals, {faults} of {min_faults} faults");
    }
    println!("{report}");
    Ok(if report.is_clean() && is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
