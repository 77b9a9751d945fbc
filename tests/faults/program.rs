//! The arguments and the end of the programs with random faults.

use std::fmt::Display;
use std::process::ExitCode;

/// The arguments of a program that injects random faults into a cluster.
#[derive(Debug, clap::Args)]
pub struct FaultArguments {
    /// Seed of all random choices. Default: random.
    #[arg(long, env = "FOLIO_SEED")]
    seed: Option<u64>,
    /// Minimum number of faults. Faults continue until the work of the program has ended.
    #[arg(long, default_value_t = 25)]
    pub faults: usize,
    /// Number of CQL servers. With 3, one of them is killed at a time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    cql_nodes: u8,
}

impl FaultArguments {
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(rand::random)
    }

    pub fn cql_nodes(&self) -> usize {
        self.cql_nodes.into()
    }
}

/// Prints the report of a program, and returns the exit code. `is_clean`: the program found no violation.
pub fn finish(report: &impl Display, is_clean: bool) -> ExitCode {
    println!("{report}");
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
