//! Cache of downloaded and built programs, shared by all checkouts of a user.

use std::fs::{File, create_dir_all, rename};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// `FOLIO_TEST_CACHE`, otherwise `folio-test-servers` in the user's cache folder.
fn folder() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("FOLIO_TEST_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("folio-test-servers")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/folio-test-servers")))
        .unwrap_or_else(|| std::env::temp_dir().join("folio-test-servers"))
}

pub(crate) fn has(name: &str) -> bool {
    folder().join(name).is_dir()
}

/// Returns the folder of an entry. If the entry is not cached, `make` first fills an empty folder, under a lock. A
/// failure leaves no entry.
pub(crate) fn get_or_create(name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let path = folder().join(name);
    create_dir_all(folder()).context("cannot create the cache folder of the test servers")?;
    let lock = File::create(folder().join(format!("{name}.lock")))?;
    lock.lock().context("cannot lock the cache folder of the test servers")?;
    if !path.is_dir() {
        let unfinished = tempfile::Builder::new().prefix("unfinished-").tempdir_in(folder())?;
        make(unfinished.path())?;
        rename(unfinished.keep(), &path).context("cannot move a folder into the cache")?;
    }
    Ok(path)
}

/// Runs a command to its end. The error of a failed command contains its output.
pub(crate) fn run_to_end(command: &mut std::process::Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(std::process::Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    if !output.status.success() {
        let printed = [output.stdout, output.stderr].concat();
        bail!("{name} failed ({}): {}", output.status, String::from_utf8_lossy(&printed).trim());
    }
    Ok(())
}
