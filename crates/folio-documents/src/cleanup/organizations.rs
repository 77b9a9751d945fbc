//! What is left to do after an organization was deleted.
//!
//! Everything below it is erased at the next sweep, and once more after a day: a turn or an upload that was under way may have
//! written there again. By then it has ended, and its tokens have not counted for a day.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use folio_storage::{SharedTurnStore, Stores};
use folio_types::{OrgId, Result, Timestamp, limits};

/// Organizations that are erased in one look at all rows.
const AT_ONCE: usize = 1_000;

/// Erases deleted organizations.
pub(super) struct Organizations {
    stores: Stores,
    turns: Arc<dyn SharedTurnStore>,
    /// Those whose rows were erased.
    erased: BTreeMap<OrgId, Erased>,
}

/// How far it has come with an organization.
struct Erased {
    /// After the day in which something may have been under way.
    for_good: bool,
    /// Its bytes and its turns went, too.
    whole: bool,
}

impl Organizations {
    pub(super) fn new(stores: Stores, turns: Arc<dyn SharedTurnStore>) -> Self {
        Self { stores, turns, erased: BTreeMap::new() }
    }

    /// One look at all rows for all organizations that are due; none where none is. What fails for one organization keeps no
    /// other, and is tried again without another look.
    pub(super) async fn sweep(&mut self, now: Timestamp) -> Result<()> {
        let deleted: BTreeMap<_, _> = self.stores.erasure.deleted(AT_ONCE).await?.into_iter().collect();
        self.erased.retain(|org, _| deleted.contains_key(org));
        let last = |at: &Timestamp| at.checked_add(limits::DAY).is_ok_and(|end| now >= end);
        let due = |org: &OrgId, at| self.erased.get(org).is_none_or(|erased| last(at) && !erased.for_good);
        let due: BTreeSet<_> = deleted.iter().filter(|(org, at)| due(org, at)).map(|(org, _)| org.clone()).collect();
        if !due.is_empty() {
            self.stores.erasure.erase(&due).await?;
        }
        for org in due {
            let for_good = deleted.get(&org).is_some_and(last);
            self.erased.insert(org, Erased { for_good, whole: false });
        }
        for (org, erased) in self.erased.iter_mut().filter(|(_, erased)| !erased.whole) {
            let Erased { for_good, .. } = *erased;
            match erase_beside_rows(&self.stores, &*self.turns, org, for_good).await {
                Ok(()) => {
                    erased.whole = true;
                    tracing::info!(%org, for_good, "a deleted organization was erased");
                }
                Err(error) => {
                    tracing::warn!(%org, %error, "of a deleted organization something could not be erased yet")
                }
            }
        }
        Ok(())
    }
}

async fn erase_beside_rows(stores: &Stores, turns: &dyn SharedTurnStore, org: &OrgId, for_good: bool) -> Result<()> {
    stores.blobs.delete_all(org).await?;
    turns.erase(org).await?;
    if for_good { stores.erasure.forget(org).await } else { Ok(()) }
}
