//! Erasure of deleted organizations.
//!
//! The next sweep erases all data of a deleted organization, and so does a sweep one day later, because a turn or
//! upload in progress may have written again. After a day every such write has ended, and the organization's tokens
//! have been invalid for that day.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use folio_resources::Organization;
use folio_storage::{SharedTurnStore, Stores};
use folio_types::{OrgId, Result, Timestamp, limits};

/// Maximum number of organizations that one scan of all rows erases.
const ORGANIZATIONS_PER_SCAN: usize = 1_000;

pub(super) struct Organizations {
    stores: Stores,
    turns: Arc<dyn SharedTurnStore>,
    /// Organizations whose rows were erased.
    erased: BTreeMap<OrgId, Erased>,
}

struct Erased {
    /// True if the erasure ran a day after the deletion, when no write could be in progress.
    is_final: bool,
    /// True if the blobs and turns were erased as well.
    is_complete: bool,
}

impl Organizations {
    pub(super) fn new(stores: Stores, turns: Arc<dyn SharedTurnStore>) -> Self {
        Self { stores, turns, erased: BTreeMap::new() }
    }

    /// Scans all rows once for all due organizations. A failure affects only its organization, which is retried without
    /// another scan.
    pub(super) async fn sweep(&mut self, now: Timestamp) -> Result<()> {
        let deleted = self.stores.of::<Organization>().deleted(ORGANIZATIONS_PER_SCAN).await?;
        let deleted: BTreeMap<_, _> = deleted.into_iter().map(|(_, org, at)| (org, at)).collect();
        self.erased.retain(|org, _| deleted.contains_key(org));
        let last = |at: &Timestamp| at.checked_add(limits::DAY).is_ok_and(|end| now >= end);
        let due = |org: &OrgId, at| self.erased.get(org).is_none_or(|erased| last(at) && !erased.is_final);
        let due: BTreeSet<_> = deleted.iter().filter(|(org, at)| due(org, at)).map(|(org, _)| org.clone()).collect();
        if !due.is_empty() {
            self.stores.erasure.erase(&due).await?;
        }
        for org in due {
            let is_final = deleted.get(&org).is_some_and(last);
            self.erased.insert(org, Erased { is_final, is_complete: false });
        }
        for (org, erased) in self.erased.iter_mut().filter(|(_, erased)| !erased.is_complete) {
            let Erased { is_final, .. } = *erased;
            match erase_blobs_and_turns(&self.stores, &*self.turns, org, is_final).await {
                Ok(()) => {
                    erased.is_complete = true;
                    tracing::info!(%org, is_final, "a deleted organization was erased");
                }
                Err(error) => {
                    tracing::warn!(%org, %error, "cannot erase a deleted organization completely; retrying at the next sweep")
                }
            }
        }
        Ok(())
    }
}

async fn erase_blobs_and_turns(
    stores: &Stores,
    turns: &dyn SharedTurnStore,
    org: &OrgId,
    is_final: bool,
) -> Result<()> {
    stores.blobs.delete_all(org).await?;
    turns.erase(org).await?;
    if is_final { stores.of::<Organization>().clean_deleted(&OrgId::platform(), org, true).await } else { Ok(()) }
}
