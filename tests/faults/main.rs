//! The program of the random fault test: `cargo xtask chaos` runs the program for minutes; `tests.rs` runs the same
//! test with few faults.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use folio_tests::faults::program::{FaultArguments, finish};
use folio_tests::faults::run::{Plan, run};

#[derive(Parser)]
#[command(about = "Injects random faults into a cluster under load and checks its invariants independently")]
struct Arguments {
    /// Minimum duration in minutes.
    #[arg(long, default_value_t = 0)]
    minutes: u64,
    #[command(flatten)]
    faults: FaultArguments,
    /// Minimum number of approvals.
    #[arg(long, default_value_t = 300)]
    approvals: usize,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let plan = Plan {
        seed: arguments.faults.seed(),
        faults: arguments.faults.faults,
        approvals: arguments.approvals,
        time: Duration::from_secs(60 * arguments.minutes),
        cql_nodes: arguments.faults.cql_nodes(),
    };
    let wanted = plan.clone();
    let report = run(plan).await?;
    let (approvals, faults) = (report.approvals, report.events.1);
    let is_complete = approvals >= wanted.approvals && faults >= wanted.faults;
    if !is_complete {
        let Plan { approvals: min_approvals, faults: min_faults, .. } = &wanted;
        println!("incomplete: {approvals} of {min_approvals} approvals, {faults} of {min_faults} faults");
    }
    Ok(finish(&report, report.is_clean() && is_complete))
}
