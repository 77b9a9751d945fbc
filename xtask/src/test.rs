//! `cargo xtask test`: runs every test of the project on real servers, and lists skipped tests.

use std::process::ExitStatus;

use anyhow::{Result, anyhow, bail};
use folio_test_servers::Servers;

use crate::clients::{self, Clients};
use crate::counts::{Counts, run_counted};
use crate::deploy;
use crate::page;
use crate::run::{cargo, finish};
use crate::servers;
use crate::tools::{
    DOCROUTER_NODE, DOCROUTER_PYTHON, Install, LIBREOFFICE, MCP, PDFTOPPM, QDRANT_EDGE, SCHEMATHESIS, TESSERACT,
    missing_of,
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    install: Install,
    /// Run only tests whose name contains this text.
    filter: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let tools = [TESSERACT, PDFTOPPM, LIBREOFFICE, SCHEMATHESIS, MCP, DOCROUTER_PYTHON, DOCROUTER_NODE, QDRANT_EDGE];
    let missing =
        || [missing_of(&tools), servers::missing(), deploy::missing(), clients::missing(), page::missing()].concat();
    arguments.install.require(missing)?;
    let deployed = if arguments.filter.is_none() { deploy::check(false)? } else { 0 };
    let clients = if arguments.filter.is_none() { Some(clients::test()?) } else { None };
    // The order matters: the page contains the client for TypeScript, and the server, which `run_tests` builds, embeds
    // the page.
    let page = if arguments.filter.is_none() { page::build()? } else { Counts::default() };
    let (mut counts, status) = run_tests(arguments.filter.as_deref(), clients.as_ref())?;
    counts.passed += deployed + clients.map_or(0, |clients| clients.counts.passed);
    counts.merge(page);
    let browsed = if arguments.filter.is_none() { page::browse() } else { Ok(Counts::default()) };
    // A failure of the page in the browser must not hide the counts of the other tests.
    let failure = match browsed {
        Ok(browsed) => {
            counts.merge(browsed);
            None
        }
        Err(error) => {
            println!("{error:#}");
            Some(error)
        }
    };
    for name in &counts.ignored {
        println!("skipped: {name}");
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.ignored.len());
    if !status.success() || counts.failed > 0 {
        bail!("tests failed ({status})");
    }
    if let Some(failure) = failure {
        return Err(failure);
    }
    counts.require_passed()
}

/// Starts the servers during the compilation, runs the tests, and stops the servers.
fn run_tests(filter: Option<&str>, clients: Option<&Clients>) -> Result<(Counts, ExitStatus)> {
    let starting = std::thread::spawn(Servers::start);
    // Build everything once, so that the binaries that the tests start have the features and profile of the tests.
    finish(cargo().args(["build", "--workspace", "--all-targets", "--quiet"]))?;
    let servers = starting.join().map_err(|_| anyhow!("starting the test servers panicked"))??;
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast"]).args(filter).envs(servers.variables());
    command.envs(clients.into_iter().flat_map(Clients::variables));
    // Two threads per core, because most tests wait for servers, processes and timers.
    let threads = 2 * std::thread::available_parallelism()?.get();
    command.env("RUST_TEST_THREADS", threads.to_string());
    command.envs(SCHEMATHESIS.path().map(|program| ("FOLIO_TEST_SCHEMATHESIS", program)));
    command.envs(MCP.path().map(|program| ("FOLIO_TEST_MCP_PYTHON", program.with_file_name("python3"))));
    run_counted(&mut command)
}
