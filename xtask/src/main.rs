//! What people and CI run: `cargo xtask test`, `servers`, `lint`, `deploy`, `bench`, `chaos`, `fuzz`, `check-model`.
//!
//! This is a thin runner with few dependencies, so that it builds in seconds: it finds or installs the tools that a
//! command needs and calls `cargo`.

mod bench;
mod chaos;
mod check_model;
mod counts;
mod deploy;
mod fuzz;
mod lint;
mod run;
mod servers;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "What people and CI run", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs every test of the project.
    Test(test::Arguments),
    /// Starts the servers that tests run on, prints the variables that name them, and stops them when it is ended.
    Servers(servers::Arguments),
    /// Checks the proto files.
    Lint(lint::Arguments),
    /// Checks the chart and the composition, which `test` does too.
    Deploy(deploy::Arguments),
    /// Measures: prints a table and JSON.
    Bench(bench::Arguments),
    /// Random faults on a whole cluster under load, judged by a checker.
    Chaos(chaos::Arguments),
    /// Fuzzes the parsers of what comes from outside.
    Fuzz(fuzz::Arguments),
    /// Searches the model of the turn machine deeper than the tests do.
    CheckModel(check_model::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Test(arguments) => test::run(&arguments),
        Command::Servers(arguments) => servers::run(&arguments),
        Command::Lint(arguments) => lint::run(&arguments),
        Command::Deploy(arguments) => deploy::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Chaos(arguments) => chaos::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
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
