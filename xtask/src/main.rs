//! Commands for developers and CI: `cargo xtask test`, `servers`, `lint`, `docs`, `deploy`, `clients`, `page`, `bench`,
//! `eval`, `chaos`, `batch`, `stack`, `outage`, `upgrade`, `soak`, `migrations`, `tombstones`, `power-loss`, `fuzz`, `mutants`,
//! `check-model`.
//!
//! A command finds or installs the tools that it needs and calls `cargo`. The crate has few dependencies, so that it
//! builds in seconds.

mod bench;
mod chaos;
mod check_model;
mod clients;
mod counts;
mod deploy;
mod docs;
mod eval;
mod fuzz;
mod lint;
mod mutants;
mod page;
mod power_loss;
mod run;
mod servers;
mod soak;
mod test;
mod test_programs;
mod tombstones;
mod tools;
mod upgrade;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use chaos::BatchResults;

#[derive(Parser)]
#[command(about = "Commands for developers and CI", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs every test of the project.
    Test(test::Arguments),
    /// Starts the servers of the tests and prints the variables that name them; stops the servers when it ends.
    Servers(servers::Arguments),
    /// Lints the proto files.
    Lint(lint::Arguments),
    /// Writes docs/api.md and docs/operation-table.md from the proto files and the declarations of the operations.
    Docs,
    /// Checks the Helm chart and compose.yaml (part of `test`).
    Deploy(deploy::Arguments),
    /// Builds and tests the clients for Python and TypeScript (part of `test`).
    Clients(clients::Arguments),
    /// Builds the web page and tests it in Chromium (part of `test`).
    Page(page::Arguments),
    /// Measures performance; prints tables and JSON.
    Bench(bench::Arguments),
    /// Extracts documents with known values, or searches for answers to questions, and scores the results; prints tables and JSON.
    Eval(eval::Arguments),
    /// Injects random faults into a cluster under load and checks the results.
    Chaos(chaos::Arguments),
    /// Runs a batch on three nodes under random faults and checks that each document has exactly one result.
    Batch(chaos::BatchArguments),
    /// Fills the rows of a stack on three nodes under random faults and checks that each document has one row, whose cells were set
    /// once, and that no call is charged twice and no credit budget is exceeded.
    Stack(chaos::BatchArguments),
    /// Ingests documents on three nodes under random faults and checks their passages, the index, the charges and deletions.
    Ingestions(chaos::IngestionArguments),
    /// Stops one of three CQL servers during approvals and checks the results.
    Outage(chaos::OutageArguments),
    /// Replaces the processes of an older version by those of this version under load, and checks the results.
    Upgrade(upgrade::Arguments),
    /// Runs a constant load on a cluster for hours; memory, open files, Redis keys and rows must not grow.
    Soak(soak::Arguments),
    /// Migrates new keyspaces of three CQL servers eight times at once.
    Migrations(chaos::MigrationArguments),
    /// Counts the deleted rows that lists, searches and sweeps read after many renames and turns.
    Tombstones(tombstones::Arguments),
    /// Opens the embedded store after losses of power at many points and checks that no acknowledged write is lost.
    PowerLoss(power_loss::Arguments),
    /// Fuzzes the parsers of untrusted input.
    Fuzz(fuzz::Arguments),
    /// Mutates the pure code and lists mutants that no test catches.
    Mutants(mutants::Arguments),
    /// Searches the model of the turn machine deeper than the tests do.
    CheckModel(check_model::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Test(arguments) => test::run(&arguments),
        Command::Servers(arguments) => servers::run(&arguments),
        Command::Lint(arguments) => lint::run(&arguments),
        Command::Docs => docs::run(),
        Command::Deploy(arguments) => deploy::run(&arguments),
        Command::Clients(arguments) => clients::run(&arguments),
        Command::Page(arguments) => page::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Chaos(arguments) => chaos::run(&arguments),
        Command::Batch(arguments) => chaos::batch(&arguments, BatchResults::Extractions),
        Command::Stack(arguments) => chaos::batch(&arguments, BatchResults::Rows),
        Command::Ingestions(arguments) => chaos::ingestions(&arguments),
        Command::Outage(arguments) => chaos::outage(&arguments),
        Command::Upgrade(arguments) => upgrade::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Migrations(arguments) => chaos::migrations(&arguments),
        Command::Tombstones(arguments) => tombstones::run(&arguments),
        Command::PowerLoss(arguments) => power_loss::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Mutants(arguments) => mutants::run(&arguments),
        Command::CheckModel(arguments) => check_model::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
