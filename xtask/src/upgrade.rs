//! `cargo xtask upgrade`: builds another version, by default the oldest compatible one, and replaces its processes by those of
//! this version under load.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::chaos::program;
use crate::run::{cargo, finish, root};

/// Name of the oldest compatible version.
const OLDEST: &str = "v0.1.0";
/// The commit of the oldest compatible version. The command uses it in a repository without the tag.
const OLDEST_COMMIT: &str = "5af66a6a3a01ec490711e0043a5c53828c1424c2";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The old version: a tag, a branch or a commit. Without the tag v0.1.0 in the repository, `v0.1.0` means the tagged commit.
    #[arg(long, value_name = "REVISION", default_value = OLDEST)]
    from: String,
    /// Profile of both builds.
    #[arg(long, default_value = "dev")]
    profile: String,
    /// Seed of all random choices. Default: a new one, which is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Minimum number of approvals between two replacements.
    #[arg(long, default_value_t = 100)]
    approvals: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let old = build(&arguments.from, &arguments.profile)?;
    let mut command = program("upgrade", &arguments.profile)?;
    command.arg("--old").arg(old).args(["--approvals", &arguments.approvals.to_string()]);
    if let Some(seed) = arguments.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    finish(&mut command)
}

/// Builds the program `folio` of a revision in the folder `upgrade` of the target directory. Returns its path. A
/// repeated call compiles only what has changed.
fn build(revision: &str, profile: &str) -> Result<PathBuf> {
    let commit = commit(revision)?;
    let folder = target_folder()?.join("upgrade");
    let (sources, target) = (folder.join(&commit), folder.join("target"));
    if !sources.exists() {
        export(&commit, &sources)?;
    }
    let mut command = cargo();
    command.args(["build", "--locked", "--profile", profile, "--package", "folio", "--bins"]);
    finish(command.current_dir(&sources).env("CARGO_TARGET_DIR", &target))?;
    let built = target.join(if profile == "dev" { "debug" } else { profile }).join("folio");
    // Another revision overwrites the built program.
    let program = folder.join(format!("folio-{profile}-{commit}"));
    std::fs::copy(&built, &program).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(program)
}

/// Returns the hash of the commit of a revision.
fn commit(revision: &str) -> Result<String> {
    for name in names(revision) {
        let name = format!("{name}^{{commit}}");
        let output = git().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &name]).output()?;
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout)?.trim().to_owned());
        }
    }
    bail!(
        "unknown revision {revision:?}: expected a tag, a branch or a commit; a shallow clone needs `git fetch --unshallow`"
    )
}

/// Returns the names under which git may find a revision, in the order in which they are tried.
fn names(revision: &str) -> Vec<&str> {
    let commit = (revision == OLDEST).then_some(OLDEST_COMMIT);
    std::iter::once(revision).chain(commit).collect()
}

/// Writes the files of a commit into a folder. The folder exists only after a complete export.
fn export(commit: &str, folder: &Path) -> Result<()> {
    let partial = folder.with_extension("partial");
    if partial.exists() {
        std::fs::remove_dir_all(&partial)?;
    }
    std::fs::create_dir_all(&partial)?;
    let mut archive = git().args(["archive", "--format=tar", commit]).stdout(Stdio::piped()).spawn()?;
    let output = archive.stdout.take().context("git has no output")?;
    finish(Command::new("tar").args(["-x", "-C"]).arg(&partial).stdin(output))?;
    ensure!(archive.wait()?.success(), "git cannot export {commit}");
    std::fs::rename(&partial, folder)?;
    Ok(())
}

fn git() -> Command {
    let mut command = Command::new("git");
    command.current_dir(root());
    command
}

/// Returns the target directory of this build: `TARGET/PROFILE/xtask` is this program.
fn target_folder() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    program.ancestors().nth(2).map(Path::to_owned).context("this program is not in a target directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_version_is_also_found_without_its_tag() {
        assert_eq!(names(OLDEST), [OLDEST, OLDEST_COMMIT]);
        assert_eq!(names("main"), ["main"]);
    }

    #[test]
    fn an_unknown_revision_is_an_error_that_names_it() {
        let error = commit("no-such-revision").expect_err("git knows no such revision").to_string();
        assert!(error.contains("no-such-revision") && error.contains("--unshallow"), "{error}");
    }
}
