//! What people and CI run: `cargo xtask test`, `bench`, `fuzz`, `check-model`.

use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let passed =
        Command::new("cargo").args(["test", "--workspace", "--quiet"]).status().is_ok_and(|status| status.success());
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
