//! `cargo xtask clients`: builds, checks and tests the clients for Python and TypeScript, as their users install them.
//!
//! The packages are built from the checkout, and installed in folders below `target/clients`. The tests of a client use a server that
//! plays scripted answers; `tests/wire/clients.rs` runs the examples of the installed packages against a server of Folio.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::counts::{Counts, number_after, number_before};
use crate::run::{finish_quietly, npm, output, root};
use crate::tools::{Install, NODE, NPM, PYTHON_VENV, Tool, missing_of};

/// Oldest version of Node with which the client for TypeScript works.
const NODE_VERSION_MIN: u32 = 20;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    install: Install,
}

/// The programs and folders of the installed clients.
pub(crate) struct Clients {
    python: PathBuf,
    node_modules: PathBuf,
    pub(crate) counts: Counts,
}

impl Clients {
    /// Returns the variables that name the installed clients for tests.
    pub(crate) fn variables(&self) -> [(&'static str, &Path); 2] {
        [("FOLIO_TEST_PYTHON", &self.python), ("FOLIO_TEST_NODE_MODULES", &self.node_modules)]
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    arguments.install.require(missing)?;
    let clients = test()?;
    println!("{} passed", clients.counts.passed);
    println!("to run the examples of the clients against a server:");
    for (name, value) in clients.variables() {
        println!("export {name}={}", value.display());
    }
    Ok(())
}

pub(crate) fn missing() -> Vec<Tool> {
    missing_of(&[PYTHON_VENV, NODE, NPM])
}

/// Installs the clients and runs their tests.
pub(crate) fn test() -> Result<Clients> {
    let (clients, folder) = (root().join("clients"), root().join("target/clients"));
    std::fs::create_dir_all(&folder)?;
    let mut counts = Counts::default();
    let python = python(&clients.join("python"), &folder.join("python"), &mut counts)?;
    let node_modules = typescript(&clients.join("typescript"), &folder.join("typescript"), &mut counts)?;
    Ok(Clients { python, node_modules, counts })
}

/// Installs the client for Python in a new environment, and returns its interpreter.
fn python(source: &Path, environment: &Path, counts: &mut Counts) -> Result<PathBuf> {
    finish_quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))?;
    let python = environment.join("bin/python");
    let package = format!("{}[test]", source.display());
    finish_quietly(Command::new(&python).args(["-m", "pip", "install", "--quiet", &package]))?;
    let module = |arguments: &[&str]| -> Command {
        let mut command = Command::new(&python);
        // The caches of both programs stay out of the sources.
        command.arg("-m").args(arguments).current_dir(source).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    };
    output(&mut module(&["mypy", "--cache-dir", "/dev/null", "src/folio", "tests", "examples"]))?;
    let printed = output(&mut module(&["pytest", "-q", "-p", "no:cacheprovider"]))?;
    counts.passed += number_before(&printed, " passed").context("pytest printed no number of passed tests")?;
    Ok(python)
}

/// Builds, packs and installs the client for TypeScript, and returns the folder with the installed packages.
fn typescript(source: &Path, folder: &Path, counts: &mut Counts) -> Result<PathBuf> {
    let version = output(Command::new("node").arg("--version"))?;
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < NODE_VERSION_MIN) {
        bail!("Node {NODE_VERSION_MIN} or newer is required, found {}", version.trim());
    }
    // The installation also generates the messages and compiles the sources.
    finish_quietly(&mut npm(source, &["ci", "--no-fund", "--no-audit"]))?;
    let printed = output(&mut npm(source, &["test"]))?;
    counts.passed += number_after(&printed, "# pass ").context("node printed no number of passed tests")?;
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    std::fs::create_dir_all(folder)?;
    // The package was built by the installation.
    let packed = output(npm(source, &["pack", "--ignore-scripts", "--silent", "--pack-destination"]).arg(folder))?;
    let package = packed.lines().last().context("npm pack printed no file name")?.trim().to_owned();
    std::fs::write(folder.join("package.json"), "{ \"private\": true }\n")?;
    finish_quietly(npm(folder, &["install", "--no-fund", "--no-audit"]).arg(format!("./{package}")))?;
    Ok(folder.join("node_modules"))
}
