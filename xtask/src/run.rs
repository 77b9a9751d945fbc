//! Execution of external programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Returns the folder of installed tools, which all checkouts of a user share: `folio-tools` in the user's cache
/// folder.
pub(crate) fn tools_folder() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("folio-tools")
}

/// Returns `cargo` with the workspace root as working directory.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

pub(crate) fn finish(command: &mut Command) -> Result<()> {
    let display = display(command);
    eprintln!("xtask: {display}");
    let status = command.status().with_context(|| format!("{display} cannot be started"))?;
    if !status.success() {
        bail!("{display} failed ({status})");
    }
    Ok(())
}

/// Runs a command and prints its output only if it fails.
pub(crate) fn finish_quietly(command: &mut Command) -> Result<()> {
    let display = display(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("{display} cannot be started"))?;
    if !output.status.success() {
        let printed = [output.stdout, output.stderr].concat();
        bail!("{display} failed ({}):\n{}", output.status, String::from_utf8_lossy(&printed).trim());
    }
    Ok(())
}

/// Runs a command and returns its stdout.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let display = display(command);
    eprintln!("xtask: {display}");
    let output = command.output().with_context(|| format!("{display} cannot be started"))?;
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        bail!("{display} failed ({}):\n{printed}{errors}", output.status);
    }
    Ok(printed.into_owned())
}

/// Returns `npm` with a package as working directory.
pub(crate) fn npm(package: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(package);
    command
}

/// Returns a command as a user would type it.
pub(crate) fn display(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words: Vec<_> = std::iter::once(program).chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    words.join(" ")
}
