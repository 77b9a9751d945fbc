//! The permits of the work of a process that needs much memory or time. Organizations take turns, so that one with many or long
//! documents leaves capacity to the others.

use std::time::Duration;

use folio_permits::{Amount, Bounds, Permit, Permits};
use folio_types::{Error, OrgId, Reason, Result};
use tokio::time::Instant;

/// Bounds of the rebuilds of indexes in progress. An organization has one index, which one rebuild at a time empties and fills.
const REBUILDS: Bounds = Bounds { total: Amount::permits(256), per_key: Amount::permits(1), waiters: 256 };
/// Bounds of the parts of rebuilds that are read and written at a time. A rebuild needs a permit for each part.
const REBUILD_PARTS: Bounds = Bounds { total: Amount::permits(1), per_key: Amount::permits(1), waiters: 256 };
/// Bounds of the documents that are read and divided, or searched for terms, at a time: each needs several times the bytes of its text,
/// and the dictionary.
const DIVISIONS: Bounds = Bounds { total: Amount::permits(4), per_key: Amount::permits(2), waiters: 1_024 };
/// Maximum time for which a rebuild waits for another one of the organization. A job that waits longer gives its capacity to other
/// jobs.
const REBUILD_WAIT: Duration = Duration::from_secs(2);
/// Maximum time for which a rebuild waits for the parts of others.
const REBUILD_PART_WAIT: Duration = Duration::from_secs(10 * 60);
/// Maximum time for which a division waits for others.
const DIVISION_WAIT: Duration = Duration::from_secs(60);
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The permits of a process. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct WorkPermits {
    rebuilds: Permits<OrgId>,
    rebuild_parts: Permits<OrgId>,
    divisions: Permits<OrgId>,
}

impl Default for WorkPermits {
    fn default() -> Self {
        Self {
            rebuilds: Permits::new(REBUILDS),
            rebuild_parts: Permits::new(REBUILD_PARTS),
            divisions: Permits::new(DIVISIONS),
        }
    }
}

impl WorkPermits {
    /// Takes the permit to rebuild the index of an organization.
    ///
    /// # Errors
    /// `OVERLOADED` while the process rebuilds the same index, so that a job waits.
    pub(crate) async fn rebuild(&self, org: &OrgId) -> Result<Permit<OrgId>> {
        acquire(&self.rebuilds, org, REBUILD_WAIT, "the process rebuilds this index of passages").await
    }

    /// Takes the permit to read and write the next part of a rebuild.
    ///
    /// # Errors
    /// `OVERLOADED` if the parts of other organizations take too long.
    pub(crate) async fn rebuild_part(&self, org: &OrgId) -> Result<Permit<OrgId>> {
        acquire(&self.rebuild_parts, org, REBUILD_PART_WAIT, "the process rebuilds too many indexes of passages").await
    }

    /// Takes the permit to read and divide a document, or to search it for terms.
    ///
    /// # Errors
    /// `OVERLOADED` if the documents before take too long, so that a job waits.
    pub(crate) async fn division(&self, org: &OrgId) -> Result<Permit<OrgId>> {
        acquire(&self.divisions, org, DIVISION_WAIT, "the process reads too many documents").await
    }
}

async fn acquire(permits: &Permits<OrgId>, org: &OrgId, wait: Duration, problem: &str) -> Result<Permit<OrgId>> {
    permits.acquire(org, 1, Instant::now() + wait).await.map_err(|_| {
        let message = format!("{problem}; repeat the request later");
        Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_AFTER)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn org(name: &str) -> OrgId {
        OrgId::derive(&[name])
    }

    #[tokio::test]
    async fn invariant_10_divisions_of_one_organization_leave_permits_to_others() {
        let permits = WorkPermits::default();
        let active = [permits.division(&org("loud")).await.unwrap(), permits.division(&org("loud")).await.unwrap()];
        let loud = org("loud");
        let mut third = std::pin::pin!(permits.division(&loud));
        assert!(futures::poll!(&mut third).is_pending());
        drop(permits.division(&org("quiet")).await.unwrap());
        drop(active);
        drop(third.await.unwrap());
    }

    #[tokio::test]
    async fn invariant_10_rebuilds_of_several_organizations_take_turns() {
        let permits = WorkPermits::default();
        let (loud, quiet) = (org("loud"), org("quiet"));
        let _rebuilds = [permits.rebuild(&loud).await.unwrap(), permits.rebuild(&quiet).await.unwrap()];
        let part = permits.rebuild_part(&loud).await.unwrap();
        let mut waiting = std::pin::pin!(permits.rebuild_part(&quiet));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(part);
        let mut next = std::pin::pin!(permits.rebuild_part(&loud));
        assert!(futures::poll!(&mut next).is_pending(), "the other organization has the turn");
        drop(waiting.await.unwrap());
        drop(next.await.unwrap());
    }
}
