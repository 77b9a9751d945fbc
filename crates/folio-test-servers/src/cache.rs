//! What is downloaded or built once for all checkouts of a user.

use std::fs::{File, create_dir_all, rename};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// The folder: `FOLIO_TEST_CACHE`, else `folio-test-servers` in the user's cache folder.
fn folder() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("FOLIO_TEST_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("folio-test-servers")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/folio-test-servers")))
        .unwrap_or_else(|| std::env::temp_dir().join("folio-test-servers"))
}

/// Whether it is there.
pub(crate) fn has(name: &str) -> bool {
    folder().join(name).is_dir()
}

/// The folder of that name; made by `make`, which fills an empty folder, where it is not there yet. Others who want the
/// same one wait. It is there whole or not at all.
///
/// # Errors
/// It cannot be made.
pub(crate) fn once(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let place = folder().join(name);
    create_dir_all(folder()).context("the cache folder of the test servers cannot be made")?;
    let lock = File::create(folder().join(format!("{name}.lock")))?;
    lock.lock().context("the cache folder of the test servers cannot be locked")?;
    if !place.is_dir() {
        let unfinished = tempfile::Builder::new().prefix("unfinished-").tempdir_in(folder())?;
        make(unfinished.path())?;
        rename(unfinished.keep(), &place).context("a cached folder cannot be moved to its place")?;
    }
    Ok(place)
}

/// Runs a command to its end; one that fails is an error that shows what it said.
pub(crate) fn finish(command: &mut std::process::Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(std::process::Stdio::null()).output().with_context(|| format!("{name} cannot be started"))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        bail!("{name} failed ({}): {}", output.status, String::from_utf8_lossy(&said).trim());
    }
    Ok(())
}
