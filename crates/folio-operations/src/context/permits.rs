//! The permits of operations: bounds, waits, and the permits of the caller's organization.

use std::time::Duration;

use folio_permits::{Amount, Bounds, Permit, Permits};
use folio_types::{Error, OrgId, Principal, Reason, Result};
use tokio::time::Instant;

use super::Context;

/// Maximum number of administrative changes in progress, including those whose caller has disconnected: in total, and
/// per organization.
pub(super) const CHANGES: (usize, usize) = (256, 16);
/// Maximum number of changes in progress that call a model endpoint: in total, and per organization.
pub(super) const MODEL_ENDPOINT_CHANGES: (usize, usize) = (64, 2);
/// Bounds of the journals that are read whole at a time, because each one needs up to 32 MiB of memory. Callers beyond
/// the bounds wait; the organizations take turns.
pub(super) const JOURNALS: Bounds = Bounds { total: Amount::permits(6), per_key: Amount::permits(2), waiters: 256 };
/// Bounds of the requests that add up model calls at a time.
pub(super) const USAGES: Bounds = Bounds { total: Amount::permits(8), per_key: Amount::permits(1), waiters: 256 };
/// Bounds of the lists that are sorted in memory at a time, because each one reads up to 10,000 items.
pub(super) const SORTED_LISTS: Bounds = Bounds { total: Amount::permits(8), per_key: Amount::permits(2), waiters: 256 };
/// Bounds of the exports with tables at a time, because each one needs up to 512 MiB of the temporary folder.
const EXPORTS: Bounds = Bounds { total: Amount::permits(4), per_key: Amount::permits(1), waiters: 256 };

/// Bounds of the polls at a time for streams of documents and jobs, and of the reads of pending turns for streams. An
/// organization may have thousands of streams. Polls beyond the bounds wait; the organizations take turns.
pub(super) const STREAM_POLLS: Bounds =
    Bounds { total: Amount::permits(32), per_key: Amount::permits(2), waiters: 65_536 };

/// The exports with tables that this process runs. Clones share the set.
#[derive(Debug, Clone)]
pub struct RunningExports(Permits<OrgId>);

impl Default for RunningExports {
    fn default() -> Self {
        Self(Permits::new(EXPORTS))
    }
}

impl RunningExports {
    pub fn count(&self) -> usize {
        self.0.load().permits
    }
}

/// Maximum time for which a caller waits for a permit to read a journal, to add up model calls, to sort a list, or to export
/// tables.
const READ_WAIT: Duration = Duration::from_secs(10);
/// Maximum time for which a poll for a stream waits for a permit.
const POLL_WAIT: Duration = Duration::from_secs(300);
/// Delay after which a caller that got no permit may retry.
const RETRY_SOON: Duration = Duration::from_millis(500);

pub(super) fn permit(permits: &Permits<OrgId>, principal: &Principal) -> Result<Permit<OrgId>> {
    permits.try_acquire(&principal.counted_as(), 0).map_err(|_| {
        let message = "too many administrative changes are in progress, of the organization or in total";
        Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_SOON)
    })
}

/// Waits for a permit of an organization to poll for a stream. Error: `OVERLOADED`.
pub(crate) async fn poll_permit(polls: &Permits<OrgId>, org: &OrgId) -> Result<Permit<OrgId>> {
    polls.acquire(org, 1, Instant::now() + POLL_WAIT).await.map_err(|_| {
        let message = "too many streams, of the organization or in total";
        Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_SOON)
    })
}

impl Context {
    /// Returns a permit of the caller's organization to call a model endpoint as part of an administrative change.
    /// Error: `OVERLOADED`.
    pub fn model_endpoint_permit(&self) -> Result<Permit<OrgId>> {
        permit(&self.operations.inner.model_endpoint_changes, self.principal())
    }

    /// Waits for a permit of the caller's organization to read a whole journal. Error: `OVERLOADED`.
    pub(crate) async fn journal_permit(&self) -> Result<Permit<OrgId>> {
        self.read_permit(&self.operations.inner.journals, "threads are read with a filter").await
    }

    /// Waits for a permit of the caller's organization to add up model calls. Error: `OVERLOADED`.
    pub(crate) async fn usage_permit(&self) -> Result<Permit<OrgId>> {
        self.read_permit(&self.operations.inner.usages, "requests add up model calls").await
    }

    /// Waits for a permit of the caller's organization to sort a list in memory. Error: `OVERLOADED`.
    pub(crate) async fn sorted_list_permit(&self) -> Result<Permit<OrgId>> {
        self.read_permit(&self.operations.inner.sorted_lists, "lists are sorted").await
    }

    /// Waits for a permit of the caller's organization to export tables. Error: `OVERLOADED`.
    pub(crate) async fn export_permit(&self) -> Result<Permit<OrgId>> {
        self.read_permit(&self.components().exports.0, "exports of tables run").await
    }

    async fn read_permit(&self, permits: &Permits<OrgId>, what: &str) -> Result<Permit<OrgId>> {
        permits.acquire(&self.principal().org, 1, Instant::now() + READ_WAIT).await.map_err(|_| {
            let message = format!("too many {what}, of the organization or in total");
            Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_SOON)
        })
    }
}

#[cfg(test)]
mod tests;
