//! Stops of CQL servers during approvals as a program: `cargo xtask outage`, and in the tests with one short stop.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use folio_tests::faults::outage::{IN_FLIGHT_MIN, Plan, Stop, run};

/// Maximum growth of a gateway or node during a stop, in bytes: about 50 KiB for each of the 1,280 reads and watches that are in
/// flight at a gateway.
const MEMORY_GROWTH_MAX: u64 = 64 * 1024 * 1024;

/// Minimum numbers of reads and watches in flight at a gateway while no server answers. With fewer, the memory was not tested.
/// A gateway permits 1,024 short calls, of which the approvals use some.
const READS_MIN: usize = 900;
const WATCHES_MIN: usize = 100;

#[derive(Parser)]
#[command(about = "Approvals while a CQL server is stopped, and an independent checker")]
struct Arguments {
    /// Seed of all random choices. Default: random.
    #[arg(long, env = "FOLIO_SEED")]
    seed: Option<u64>,
    /// Number of CQL servers. With 1, all of them stop.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=3))]
    cql_nodes: u8,
    /// Suspend a server for this number of seconds. May be repeated.
    #[arg(long)]
    suspend: Vec<u64>,
    /// Kill a server last.
    #[arg(long)]
    kill: bool,
    /// Minimum number of approvals before, during and after each stop together.
    #[arg(long, default_value_t = 200)]
    approvals: usize,
    /// Number of empty keyspaces on which 8 processes start at once before the first stop.
    #[arg(long, default_value_t = 0)]
    migrations: usize,
    /// Maximum 99th percentile of an approval while one of three servers is stopped, in seconds. Default: none.
    #[arg(long)]
    p99_seconds: Option<u64>,
    /// Minimum number of approvals in flight during each stop. Default: 30 if one of three servers stops, of which a stop of 8 s
    /// overlaps about 40, and 3 if all stop, because then the approvals of a few clients wait for the end of the stop.
    #[arg(long)]
    overlapping: Option<usize>,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let suspended = arguments.suspend.iter().map(|seconds| Stop::Suspended(Duration::from_secs(*seconds)));
    let plan = Plan {
        seed: arguments.seed.unwrap_or_else(rand::random),
        cql_nodes: arguments.cql_nodes.into(),
        stops: suspended.chain(arguments.kill.then_some(Stop::Killed)).collect(),
        approvals: arguments.approvals,
        migrations: arguments.migrations,
    };
    let report = run(plan).await?;
    let is_one_of_three = arguments.cql_nodes == 3;
    let overlapping = arguments.overlapping.unwrap_or(if is_one_of_three { 30 } else { IN_FLIGHT_MIN });
    let in_flight = report.in_flight();
    let conditions = [
        (report.violations.is_empty() && report.lost.is_empty(), "the checker found violations"),
        (report.overlapping() >= overlapping, "too few approvals were in flight during a stop"),
        (!is_one_of_three || report.failed_turns() == 0, "a turn failed while one of three servers was stopped"),
        (
            !is_one_of_three || arguments.p99_seconds.is_none_or(|seconds| report.p99() < Duration::from_secs(seconds)),
            "the 99th percentile of an approval is too high",
        ),
        (
            arguments.cql_nodes > 1 || (in_flight.reads >= READS_MIN && in_flight.watches >= WATCHES_MIN),
            "too few reads or watches were in flight to test the memory",
        ),
        (report.memory_growth() < MEMORY_GROWTH_MAX, "the memory of a process grew too much"),
    ];
    let failures: Vec<_> = conditions.into_iter().filter(|(is_met, _)| !is_met).collect();
    for (_, failure) in &failures {
        println!("failed: {failure}");
    }
    // The last line has the numbers.
    println!("{report}");
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
