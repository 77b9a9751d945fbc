//! Erasure of deleted organizations.
//!
//! The next sweep erases all data of a deleted organization, and so does a sweep one day later, because a turn or
//! upload in progress may have written again. After a day every such write has ended, and the organization's tokens
//! have been invalid for that day.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use folio_resources::Organization;
use folio_storage::value::DeletionRow;
use folio_storage::{SharedTurnStore, Stores};
use folio_types::{OrgId, Result, Timestamp, limits};

/// Maximum number of organizations that one scan of all rows erases. The next sweep erases further ones.
const ORGANIZATIONS_PER_SCAN: usize = 1_000;
/// Maximum rows of a page of the index of deletions.
const PAGE_ROWS: usize = 1_000;

pub(super) struct Organizations {
    stores: Stores,
    turns: Arc<dyn SharedTurnStore>,
    /// Organizations whose rows were erased and whose deletion is in the index: those of the last day.
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
        let due = self.due(now).await?;
        if !due.is_empty() {
            self.stores.erasure.erase(&due.keys().cloned().collect()).await?;
        }
        for (org, is_final) in due {
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

    /// Returns the organizations whose first or final erasure is due, each with whether it is final. Their deletions are
    /// confirmed. Forgets the erasures of deletions that are no longer in the index.
    async fn due(&mut self, now: Timestamp) -> Result<BTreeMap<OrgId, bool>> {
        let store = self.stores.of::<Organization>();
        let (mut listed, mut due) = (BTreeSet::new(), BTreeMap::new());
        let mut after: Option<DeletionRow> = None;
        loop {
            let times = Timestamp::MIN..=Timestamp::MAX;
            let page = store.indexed_deletions(&times, after.as_ref(), PAGE_ROWS).await?;
            let is_last = page.len() < PAGE_ROWS;
            for row in page {
                let org =
                    self.stores.unreadable.skip(format_args!("deletion of {}", row.id), row.id.parse::<OrgId>())?;
                if let Some(org) = org {
                    let is_final = row.at.checked_add(limits::DAY).is_ok_and(|end| now >= end);
                    let is_due = self.erased.get(&org).is_none_or(|erased| is_final && !erased.is_final);
                    if is_due && due.len() < ORGANIZATIONS_PER_SCAN {
                        let confirmed = store.confirm_deletion(&row).await;
                        // An unreadable organization does not delay the erasure of the others.
                        let confirmed = self.stores.unreadable.skip(format_args!("organization {org}"), confirmed)?;
                        if confirmed == Some(true) {
                            due.insert(org.clone(), is_final);
                        }
                    }
                    listed.insert(org);
                }
                after = Some(row);
            }
            if is_last {
                break;
            }
        }
        self.erased.retain(|org, _| listed.contains(org));
        Ok(due)
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
