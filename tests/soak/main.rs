//! The program of the soak test: `cargo xtask soak` runs it for hours, the tests for seconds.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use folio_tests::soak::{Plan, run};

#[derive(Parser)]
#[command(about = "Constant mixed load on a cluster; memory, open files, Redis keys and rows must not grow")]
struct Arguments {
    /// Duration in hours, possibly a fraction.
    #[arg(long, default_value_t = 1.0)]
    hours: f64,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let hours = Arguments::parse().hours;
    let report = run(Plan { duration: Duration::try_from_secs_f64(hours * 3600.0)? }).await?;
    println!("{report}");
    Ok(if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
