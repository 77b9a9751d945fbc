//! `cargo xtask test`: every test of the project, and what was skipped and why.

use anyhow::{Result, bail};

use crate::counts::counted;
use crate::run::{cargo, finish};
use crate::tools::{PDFTOPPM, TESSERACT, require};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Install what the tests need and the machine lacks (by the system's package manager).
    #[arg(long)]
    install: bool,
    /// Only tests whose name contains this.
    filter: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    require(&[&TESSERACT, &PDFTOPPM], arguments.install)?;
    // The processes that the tests start are built with the very features and profile of the tests' own build.
    finish(cargo().args(["build", "--workspace", "--all-targets", "--quiet"]))?;
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(&arguments.filter);
    let (counts, status) = counted(&mut command)?;
    for name in &counts.ignored {
        println!("skipped: {name}");
    }
    if counts.ignored.is_empty() {
        println!("skipped: nothing");
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.ignored.len());
    if !status.success() || counts.failed > 0 {
        bail!("tests failed ({status})");
    }
    counts.some()
}
