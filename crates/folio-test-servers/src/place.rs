//! Where the servers keep their data: in memory where the machine has a file system for it, so that a slow or busy disk is
//! no part of what a test measures. What a server answered for is kept when it is killed: the folder outlives its process.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

/// The file system in memory.
const MEMORY: &str = "/dev/shm";
/// What must be free there, in bytes: the servers of a run need a tenth of it.
const FREE_MIN: u64 = 6 << 30;

/// A new folder of one server; it goes when it is dropped.
///
/// # Errors
/// It cannot be made.
pub(crate) fn folder(of: &str) -> Result<TempDir> {
    let place = if has_room(Path::new(MEMORY)) { PathBuf::from(MEMORY) } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix(&format!("folio-{of}-")).tempdir_in(&place);
    folder.with_context(|| format!("no folder could be made in {}", place.display()))
}

fn has_room(place: &Path) -> bool {
    statvfs(place).is_ok_and(|system| {
        let free = system.blocks_available().saturating_mul(system.fragment_size());
        free >= FREE_MIN
    })
}
