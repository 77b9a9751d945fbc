//! The bound on the disk space of all indexes of a process.
//!
//! | event | effect |
//! |---|---|
//! | a write fits | the size of the index grows by the write, until it is measured again |
//! | a write does not fit | the write is refused, and its size is recorded |
//! | a rebuild begins within an hour of a refused write, or the refused write would still not fit | the rebuild is refused: it would be refused at the same document |

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use folio_types::{Error, OrgId, Reason, Result};
use tokio::time::Instant;

const MIB: u64 = 1024 * 1024;
/// Disk space that an index needs, as a multiple of its size: a merge writes a segment before it removes the merged ones.
const MERGE_FACTOR: u64 = 2;
/// Minimum time between a refused write and the next rebuild of the index.
const RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// The sizes of all indexes on the disk, with their bound.
pub(super) struct DiskUse {
    /// Maximum bytes of all indexes, including the space for merges.
    max: u64,
    sizes: Mutex<Sizes>,
}

#[derive(Default)]
struct Sizes {
    by_org: HashMap<OrgId, u64>,
    /// The newest refused write of each organization.
    refused: HashMap<OrgId, Refusal>,
}

#[derive(Debug, Clone, Copy)]
struct Refusal {
    at: Instant,
    /// Bytes of the texts and vectors of the write.
    bytes: u64,
}

/// The bound that a write exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// Half of the maximum, for the index of one organization.
    Organization,
    /// The maximum, for all indexes.
    Process,
}

/// Returns the bound that indexes of these sizes exceed. `own`: the bytes of the index of an organization. `others`: those of all
/// other indexes. None: they fit.
fn exceeded(max: u64, own: u64, others: u64) -> Option<Bound> {
    let needed = |bytes: u64| bytes.saturating_mul(MERGE_FACTOR);
    if needed(own) > max / 2 {
        Some(Bound::Organization)
    } else if needed(own.saturating_add(others)) > max {
        Some(Bound::Process)
    } else {
        None
    }
}

impl Sizes {
    fn others(&self, org: &OrgId) -> u64 {
        let others = self.by_org.iter().filter(|(other, _)| *other != org);
        others.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    fn set(&mut self, org: &OrgId, bytes: u64) {
        self.by_org.insert(org.clone(), bytes);
    }
}

impl DiskUse {
    /// `sizes`: the bytes of the indexes that exist.
    pub(super) fn new(max: u64, sizes: impl Iterator<Item = (OrgId, u64)>) -> Self {
        Self { max, sizes: Mutex::new(Sizes { by_org: sizes.collect(), refused: HashMap::new() }) }
    }

    fn sizes(&self) -> MutexGuard<'_, Sizes> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the measured size of an index. No effect on an index that was deleted while it was measured.
    pub(super) fn update(&self, org: &OrgId, bytes: u64) {
        let mut sizes = self.sizes();
        if let Some(known) = sizes.by_org.get_mut(org) {
            *known = bytes;
        }
    }

    /// Stores the size of a new index.
    pub(super) fn set(&self, org: &OrgId, bytes: u64) {
        self.sizes().set(org, bytes);
    }

    /// Removes a deleted index.
    pub(super) fn remove(&self, org: &OrgId) {
        let mut sizes = self.sizes();
        sizes.by_org.remove(org);
        sizes.refused.remove(org);
    }

    /// Checks that an index may grow. `own`: its measured size. `added`: the bytes of the texts and vectors of the write.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED` beyond the bound.
    pub(super) fn check_write(&self, org: &OrgId, own: u64, added: u64, now: Instant) -> Result<()> {
        let mut sizes = self.sizes();
        let grown = own.saturating_add(added);
        let Some(exceeded) = exceeded(self.max, grown, sizes.others(org)) else {
            sizes.set(org, grown);
            return Ok(());
        };
        sizes.set(org, own);
        sizes.refused.insert(org.clone(), Refusal { at: now, bytes: added });
        Err(self.error(exceeded))
    }

    /// Checks that an index may be emptied and rebuilt.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED` if the other indexes use the maximum, or after a refused write, until the write would fit.
    pub(super) fn check_rebuild(&self, org: &OrgId, now: Instant) -> Result<()> {
        let mut sizes = self.sizes();
        let others = sizes.others(org);
        let refused = sizes.refused.get(org).copied();
        let own = refused
            .map_or(0, |refused| sizes.by_org.get(org).copied().unwrap_or_default().saturating_add(refused.bytes));
        if let Some(exceeded) = exceeded(self.max, own, others) {
            return Err(self.error(exceeded));
        }
        if let Some(refused) = refused {
            let wait = RETRY_AFTER.saturating_sub(now.saturating_duration_since(refused.at));
            if !wait.is_zero() {
                let message = "the index of passages had too little disk space and is rebuilt later; its searches find a part of the documents";
                return Err(Error::exhausted(Reason::QuotaExceeded, message).retry_after(wait));
            }
            sizes.refused.remove(org);
        }
        Ok(())
    }

    fn error(&self, exceeded: Bound) -> Error {
        let message = match exceeded {
            Bound::Organization => format!(
                "the index of passages of the organization needs more than {} MiB of disk space, half of index.disk_bytes; \
                 delete documents or raise the setting",
                self.max / 2 / MIB
            ),
            Bound::Process => format!(
                "the indexes of passages of this process need more than {} MiB of disk space (index.disk_bytes); raise the \
                 setting or add nodes",
                self.max / MIB
            ),
        };
        Error::exhausted(Reason::QuotaExceeded, message).retry_after(RETRY_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn org(name: &str) -> OrgId {
        OrgId::derive(&[name])
    }

    #[test]
    fn an_index_has_half_of_the_space_and_needs_its_size_twice() {
        for (own, others, expected) in [
            (0, 0, None),
            (25, 25, None),
            (26, 0, Some(Bound::Organization)),
            (25, 26, Some(Bound::Process)),
            (0, 50, None),
            (1, 50, Some(Bound::Process)),
            (u64::MAX, u64::MAX, Some(Bound::Organization)),
        ] {
            assert_eq!(exceeded(100, own, others), expected, "{own} and {others}");
        }
    }

    #[test]
    fn a_write_counts_until_the_index_is_measured() {
        let disk = DiskUse::new(100 * MIB, [(org("a"), 20 * MIB)].into_iter());
        let (now, write) = (Instant::now(), 5 * MIB);
        assert!(disk.check_write(&org("b"), 20 * MIB, write, now).is_ok());
        let full = disk.check_write(&org("c"), 0, 6 * MIB, now).unwrap_err();
        assert!(full.reason == Reason::QuotaExceeded && full.message.contains("100 MiB"), "{full}");
        disk.set(&org("b"), MIB);
        assert!(disk.check_write(&org("c"), 0, 6 * MIB, now).is_ok());
        disk.remove(&org("a"));
        assert!(disk.check_write(&org("d"), 20 * MIB, write, now).is_ok());
        let alone = disk.check_write(&org("d"), 25 * MIB, 1, now).unwrap_err();
        assert!(alone.message.contains("50 MiB of disk space, half of index.disk_bytes"), "{alone}");
    }

    #[test]
    fn an_index_without_space_is_rebuilt_after_an_hour_if_the_write_fits() {
        let (disk, now, hour) = (DiskUse::new(100 * MIB, std::iter::empty()), Instant::now(), RETRY_AFTER);
        assert!(disk.check_rebuild(&org("a"), now).is_ok());
        assert!(disk.check_write(&org("a"), 24 * MIB, 2 * MIB, now).is_err());
        assert!(disk.check_rebuild(&org("a"), now + hour).is_err(), "the write does not fit");
        disk.set(&org("a"), 10 * MIB);
        let early = disk.check_rebuild(&org("a"), now + hour / 2).unwrap_err();
        assert_eq!(early.retry_after, Some(hour / 2));
        assert!(disk.check_rebuild(&org("a"), now + hour).is_ok());
        assert!(disk.check_rebuild(&org("a"), now).is_ok(), "the refusal is no longer known");
        disk.set(&org("b"), 51 * MIB);
        assert!(disk.check_rebuild(&org("a"), now).is_err(), "another index uses the maximum");
        disk.remove(&org("b"));
        disk.update(&org("b"), 51 * MIB);
        assert!(disk.check_rebuild(&org("a"), now).is_ok(), "the other index was deleted");
    }
}
