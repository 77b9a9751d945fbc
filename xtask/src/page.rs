//! `cargo xtask page`: builds and checks the web page, and tests it in Chromium with a server that embeds it.
//!
//! The page is built before the server: the build of the gateway embeds `web/dist`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::counts::{Counts, number_before};
use crate::run::{cargo, finish, finish_quietly, npm, output, root};
use crate::tools::{CHROMIUM, CJK_FONTS, Install, NODE, NPM, Tool, missing_of};

/// Before a skipped test in the reports of Vitest.
const SKIPPED: &str = "↓ ";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    install: Install,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    arguments.install.require(missing)?;
    build_client()?;
    build_files()?;
    let mut counts = test()?;
    finish(cargo().args(["build", "--quiet", "--package", "folio", "--package", "llm-sim", "--bins"]))?;
    counts.merge(browse()?);
    for name in &counts.ignored {
        println!("skipped: {name}");
    }
    println!("{} passed, {} skipped", counts.passed, counts.ignored.len());
    Ok(())
}

pub(crate) fn missing() -> Vec<Tool> {
    missing_of(&[NODE, NPM, CHROMIUM, CJK_FONTS])
}

/// Builds the client for TypeScript, which the page contains.
fn build_client() -> Result<()> {
    finish_quietly(&mut npm(&root().join("clients/typescript"), &["ci", "--no-fund", "--no-audit"]))
}

/// Runs the tests of the page's components. Requires the built page.
pub(crate) fn test() -> Result<Counts> {
    let counts = counted(&["run", "--silent", "test", "--", "--reporter=verbose"], &[])?;
    output(&mut npm(&web(), &["run", "--silent", "size"]))?;
    Ok(counts)
}

/// Builds the page into `web/dist`. Requires the built client for TypeScript.
pub(crate) fn build_files() -> Result<()> {
    finish_quietly(&mut npm(&web(), &["ci", "--no-fund", "--no-audit"]))?;
    let (page, before) = (web().join("dist"), web().join("node_modules/page-before"));
    let was_built = page.exists();
    if was_built {
        std::fs::rename(&page, &before)?;
    }
    finish_quietly(&mut npm(&web(), &["run", "build"]))?;
    // Cargo compiles the server again if the files are new, and not if they are the old ones.
    if was_built && is_same(&page, &before)? {
        std::fs::remove_dir_all(&page)?;
        std::fs::rename(&before, &page)?;
    }
    Ok(())
}

/// Returns whether two folders contain the same files.
fn is_same(one: &Path, other: &Path) -> Result<bool> {
    let mut command = Command::new("diff");
    command.args(["--recursive", "--brief"]).args([one, other]).stdout(Stdio::null());
    Ok(command.status().context("diff cannot be started")?.success())
}

/// Tests the page in Chromium. Requires binaries of the server and of `llm-sim` that were built after the page.
pub(crate) fn browse() -> Result<Counts> {
    let folder = target()?.join("debug");
    counted(&["run", "--silent", "e2e", "--", "--reporter=verbose"], &programs(&folder)?)
}

/// Measures the page: the first view of a long list, and a fast stream.
pub(crate) fn bench() -> Result<()> {
    build_client()?;
    build_files()?;
    finish(cargo().args(["build", "--profile", "dist", "--package", "folio", "--package", "llm-sim", "--bins"]))?;
    let folder = target()?.join("dist");
    finish(npm(&web(), &["run", "--silent", "bench"]).envs(programs(&folder)?).env_remove("FOLIO_PAGE_PROXY"))
}

fn web() -> PathBuf {
    root().join("web")
}

/// Returns the folder of builds: this program is in the folder of a profile below it.
fn target() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.parent().and_then(Path::parent).context("the folder of this program has no parent")?;
    Ok(folder.to_owned())
}

/// Returns the variables that name the programs for the tests in Chromium.
fn programs(folder: &Path) -> Result<[(&'static str, PathBuf); 3]> {
    let chromium = CHROMIUM.path().context("chromium is not installed")?;
    Ok([("FOLIO_BIN", folder.join("folio")), ("LLM_SIM_BIN", folder.join("llm-sim")), ("CHROMIUM", chromium)])
}

/// Runs tests with Vitest, and counts their results. A run without a passed test is a failure.
fn counted(arguments: &[&str], variables: &[(&'static str, PathBuf)]) -> Result<Counts> {
    let mut command = npm(&web(), arguments);
    // Without `CI`, Vitest writes missing snapshots instead of failing. A proxy would hide a server without a page.
    command.envs(variables.iter().cloned()).env("CI", "1").env("NO_COLOR", "1").env_remove("FOLIO_PAGE_PROXY");
    let printed = output(&mut command)?;
    let Some(passed) = number_before(&printed, " passed") else {
        bail!("Vitest printed no number of passed tests:\n{printed}");
    };
    Ok(Counts { passed, failed: 0, ignored: skipped(&printed) })
}

/// Returns the names of skipped tests, with their reasons.
fn skipped(printed: &str) -> Vec<String> {
    let names = printed.lines().filter_map(|line| line.trim_start().strip_prefix(SKIPPED));
    names.map(|name| format!("page: {}", name.trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_with_the_same_files_are_the_same() {
        let [one, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for folder in [&one, &other] {
            std::fs::create_dir(folder.path().join("assets")).unwrap();
            std::fs::write(folder.path().join("assets/a.js"), "a").unwrap();
        }
        assert!(is_same(one.path(), other.path()).unwrap());
        std::fs::write(other.path().join("assets/a.js"), "b").unwrap();
        assert!(!is_same(one.path(), other.path()).unwrap());
    }

    #[test]
    fn results_are_read_from_the_report_of_vitest() {
        let report = " ✓ e2e/a.test.ts > one 2461ms\n ↓ e2e/b.test.ts > two [no dry run]\n\n \
            Test Files  2 passed (2)\n      Tests  14 passed | 1 skipped (15)\n   Start at  20:08:49\n";
        assert_eq!(number_before(report, " passed"), Some(14));
        assert_eq!(skipped(report), ["page: e2e/b.test.ts > two [no dry run]"]);
        assert_eq!(number_before("No test files found", " passed"), None);
    }
}
