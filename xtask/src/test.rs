//! `cargo xtask test`: runs every test of the project on real servers, and lists skipped tests.

use std::ffi::OsString;

use anyhow::{Result, anyhow, bail};
use folio_test_servers::Servers;

use crate::clients::{self, Clients};
use crate::counts::Counts;
use crate::deploy;
use crate::page;
use crate::run::{cargo, finish};
use crate::servers;
use crate::test_programs::{self, Results};
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
    let filter = arguments.filter.as_deref();
    let is_complete = filter.is_none();
    let deployed = if is_complete { deploy::check(false)? } else { 0 };
    let clients = is_complete.then(clients::test).transpose()?;
    if is_complete {
        // The order matters: the page contains the client for TypeScript, and the server embeds the page.
        page::build_files()?;
    }
    // The servers start and the components of the page are tested during the compilation.
    let starting = std::thread::spawn(Servers::start);
    let components =
        std::thread::spawn(move || if is_complete { results_of_page(page::test()) } else { Results::default() });
    // Build everything once, so that the binaries that the tests start have the features and profile of the tests.
    finish(cargo().args(["build", "--workspace", "--all-targets", "--quiet"]))?;
    let components = components.join().map_err(|_| anyhow!("testing the components of the page panicked"))?;
    let servers = starting.join().map_err(|_| anyhow!("starting the test servers panicked"))??;
    let mut jobs = test_programs::jobs(filter, &variables(&servers, clients.as_ref())?)?;
    if is_complete {
        jobs.insert(0, Box::new(|| Ok(results_of_page(page::browse()))));
    }
    let mut results = test_programs::run_all(jobs, cores()?)?;
    drop(servers);
    results.merge(components);
    let Results { mut counts, failed } = results;
    counts.passed += deployed + clients.map_or(0, |clients| clients.counts.passed);
    for name in &counts.ignored {
        println!("skipped: {name}");
    }
    println!("{} passed, {} failed, {} skipped", counts.passed, counts.failed, counts.ignored.len());
    if !failed.is_empty() || counts.failed > 0 {
        bail!("tests failed in:\n{}", failed.join("\n"));
    }
    counts.require_passed()
}

/// Returns the results of tests of the page, and prints their failure, which must not hide the counts of the other tests.
fn results_of_page(counts: Result<Counts>) -> Results {
    match counts {
        Ok(counts) => Results { counts, failed: Vec::new() },
        Err(error) => {
            println!("{error:#}");
            Results { counts: Counts::default(), failed: vec!["tests of the page".to_owned()] }
        }
    }
}

fn cores() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

/// Returns the variables of the test programs.
fn variables(servers: &Servers, clients: Option<&Clients>) -> Result<Vec<(&'static str, OsString)>> {
    // Two threads per core and program, because most tests wait for servers, processes and timers.
    let threads = 2 * cores()?;
    let mut variables = vec![("RUST_TEST_THREADS", threads.to_string().into())];
    variables.extend(servers.variables().into_iter().map(|(name, value)| (name, value.into())));
    variables.extend(clients.into_iter().flat_map(Clients::variables).map(|(name, path)| (name, path.into())));
    variables.extend(SCHEMATHESIS.path().map(|program| ("FOLIO_TEST_SCHEMATHESIS", program.into())));
    variables.extend(MCP.path().map(|program| ("FOLIO_TEST_MCP_PYTHON", program.with_file_name("python3").into())));
    Ok(variables)
}
