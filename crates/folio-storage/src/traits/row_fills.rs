//! The attempts of jobs that fill rows of stacks, as rows of a [`RowStore`]. A document has a partition of its own, with one row
//! for each stack, so that the attempts for different documents do not delay each other.

use std::sync::Arc;

use folio_types::{DocumentId, OrgId, Result, StackId};

use super::{ConditionalRow, RowStore};
use crate::value::{RowFill, Stored as _, decode, encode};

/// The newest attempts. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RowFillStore(Arc<dyn RowStore>);

/// The attempt that was recorded last for a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastRowFill {
    pub fill: RowFill,
    /// The stored value, which the next record replaces.
    stored: Vec<u8>,
}

fn group(document: &DocumentId) -> String {
    format!("{}/{document}", RowFill::KIND)
}

impl RowFillStore {
    pub fn new(rows: Arc<dyn RowStore>) -> Self {
        Self(rows)
    }

    /// Returns the attempt that was recorded last for the row of a document. None: no job has begun to fill the row.
    pub async fn last(&self, org: &OrgId, stack: &StackId, document: &DocumentId) -> Result<Option<LastRowFill>> {
        let stored = self.0.get(org, &group(document), &[stack.to_string()]).await?.pop().flatten();
        stored.map(|stored| Ok(LastRowFill { fill: decode(&stored)?, stored })).transpose()
    }

    /// Records an attempt, unless another one was recorded after `last`. Returns true if the attempt was recorded. After
    /// `STORE_UNAVAILABLE` the outcome is unknown, and [`Self::last`] returns it.
    pub async fn record(
        &self,
        org: &OrgId,
        (stack, document): (&StackId, &DocumentId),
        last: Option<LastRowFill>,
        attempt: &RowFill,
    ) -> Result<bool> {
        let before = last.map(|last| last.stored);
        let (group, key, after) = (group(document), stack.to_string(), encode(attempt)?);
        self.0.compare_and_set(org, ConditionalRow { group, key, before, after, guard: None }).await
    }

    /// Removes the records of a deleted document. Idempotent.
    pub async fn remove_document(&self, org: &OrgId, document: &DocumentId) -> Result<()> {
        self.0.remove_group(org, &group(document)).await
    }
}
