//! `cargo xtask servers`: runs the test servers until it is interrupted, so that test runs need not start them.

use anyhow::Result;
use folio_test_servers::{MissingProgram, Servers};

use crate::tools::{Install, Source, Tool};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    install: Install,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    arguments.install.require(missing)?;
    let servers = Servers::start()?;
    for (name, value) in servers.variables() {
        println!("export {name}={value}");
    }
    eprintln!("xtask: the servers run until you press Ctrl-C; set the variables above to use them");
    loop {
        std::thread::park();
    }
}

/// Returns the programs that the servers need and that are not installed.
pub(crate) fn missing() -> Vec<Tool> {
    let tool =
        |MissingProgram { program, purpose, package }| Tool { program, purpose, source: Source::Debian(package) };
    folio_test_servers::missing_programs().into_iter().map(tool).collect()
}
