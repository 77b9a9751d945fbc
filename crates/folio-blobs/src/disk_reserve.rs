//! The free space of a disk that new content must leave, so that deletions, the ends of turns and the settlement of credit
//! still find space.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use folio_types::{Error, Reason, Result};

/// Time for which the free space is cached.
const CACHED_FOR: Duration = Duration::from_secs(1);
const RETRY_AFTER: Duration = Duration::from_secs(60);
const MIB: u64 = 1024 * 1024;

/// Refuses new content while the disk of a folder has less free space than the reserve. Clones share the cache.
#[derive(Debug, Clone)]
pub struct DiskReserve {
    folder: PathBuf,
    /// Bytes that new content must leave. 0: nothing is refused.
    reserve: u64,
    /// The last answer and its time.
    last: Arc<Mutex<Option<(Instant, bool)>>>,
}

impl DiskReserve {
    pub fn new(folder: PathBuf, reserve: u64) -> Self {
        Self { folder, reserve, last: Arc::default() }
    }

    /// Creates a reserve that refuses nothing.
    pub fn none() -> Self {
        Self::new(PathBuf::new(), 0)
    }

    /// Checks that new content may be written. If the free space cannot be read, nothing is refused.
    ///
    /// # Errors
    /// `OVERLOADED` while the disk has less free space than the reserve.
    pub fn check(&self) -> Result<()> {
        if self.reserve == 0 || !self.is_short() {
            return Ok(());
        }
        let reserve = self.reserve / MIB;
        let message = format!(
            "the disk of the store has less than {reserve} MiB free space; deletions are still accepted: delete documents or enlarge the disk"
        );
        Err(Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_AFTER))
    }

    fn is_short(&self) -> bool {
        // The call below takes microseconds on a local disk.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, is_short)) = *last
            && at.elapsed() < CACHED_FOR
        {
            return is_short;
        }
        let is_short = free_bytes(&self.folder).is_some_and(|free| free < self.reserve);
        if is_short && !last.is_some_and(|(_, was_short)| was_short) {
            tracing::error!(folder = %self.folder.display(), "the disk of the store has too little free space; new content is refused");
        }
        *last = Some((Instant::now(), is_short));
        is_short
    }
}

/// Returns the bytes that this process may still write. None: the file system does not report them.
fn free_bytes(folder: &Path) -> Option<u64> {
    let found = nix::sys::statvfs::statvfs(folder).ok()?;
    Some(found.blocks_available().saturating_mul(found.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_content_is_refused_only_below_the_reserve() {
        let folder = tempfile::tempdir().unwrap();
        let free = free_bytes(folder.path()).unwrap();
        assert!(free > 0);
        for (reserve, is_refused) in [(0, false), (1, false), (u64::MAX, true)] {
            let checked = DiskReserve::new(folder.path().to_owned(), reserve).check();
            assert_eq!(checked.is_err(), is_refused, "{reserve}");
        }
        let error = DiskReserve::new(folder.path().to_owned(), u64::MAX).check().unwrap_err();
        assert!(error.reason == Reason::Overloaded && error.retry_after.is_some(), "{error}");
        assert!(DiskReserve::new(folder.path().join("missing"), u64::MAX).check().is_ok());
    }
}
