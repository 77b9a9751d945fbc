//! What is left to do after an organization was deleted.
//!
//! Everything below it is erased at the next sweep, and once more after a day: a turn or an upload that was under way may have
//! written there again. By then it has ended, and its tokens have not counted for a day.

use std::collections::BTreeSet;
use std::sync::Arc;

use folio_storage::{SharedTurnStore, Stores};
use folio_types::{OrgId, Result, Timestamp, limits};

/// Organizations that are erased in one look at all rows.
const AT_ONCE: usize = 1_000;

/// Erases deleted organizations.
pub(super) struct Organizations {
    pub(super) stores: Stores,
    pub(super) turns: Arc<dyn SharedTurnStore>,
    /// Those that were erased once.
    pub(super) begun: BTreeSet<OrgId>,
}

impl Organizations {
    /// One look at all rows for all organizations that are due; none where none is.
    pub(super) async fn sweep(&mut self, now: Timestamp) -> Result<()> {
        let deleted = self.stores.erasure.deleted(AT_ONCE).await?;
        let listed: BTreeSet<OrgId> = deleted.iter().map(|(org, _)| org.clone()).collect();
        self.begun.retain(|org| listed.contains(org));
        let last = |at: &Timestamp| at.checked_add(limits::DAY).is_ok_and(|end| now >= end);
        let due: Vec<_> = deleted.into_iter().filter(|(org, at)| last(at) || !self.begun.contains(org)).collect();
        if due.is_empty() {
            return Ok(());
        }
        self.stores.erasure.erase(&due.iter().map(|(org, _)| org.clone()).collect()).await?;
        for (org, at) in due {
            self.stores.blobs.delete_all(&org).await?;
            self.turns.erase(&org).await?;
            if last(&at) {
                self.stores.erasure.forget(&org).await?;
            }
            tracing::info!(%org, for_good = last(&at), "a deleted organization was erased");
            self.begun.insert(org);
        }
        Ok(())
    }
}
