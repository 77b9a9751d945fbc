//! Data folders of the servers. The folders are in memory if the machine has enough free memory, so that the speed of a
//! disk does not affect tests. Data survives a kill of a server, because the folder outlives the server process.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

const MEMORY: &str = "/dev/shm";
/// Minimum free space for the use of [`MEMORY`], in bytes. The servers of a test run need a tenth of it.
const FREE_MIN: u64 = 6 << 30;

/// Creates a folder for a server. Dropping the value removes the folder.
pub(crate) fn folder(of: &str) -> Result<TempDir> {
    let path = if has_space(Path::new(MEMORY)) { PathBuf::from(MEMORY) } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix(&format!("folio-{of}-")).tempdir_in(&path);
    folder.with_context(|| format!("cannot create a folder in {}", path.display()))
}

fn has_space(path: &Path) -> bool {
    statvfs(path).is_ok_and(|system| {
        let free = system.blocks_available().saturating_mul(system.fragment_size());
        free >= FREE_MIN
    })
}
