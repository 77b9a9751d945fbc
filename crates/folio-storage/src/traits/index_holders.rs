//! The node that has the index of passages of each organization, as rows of a [`RowStore`].
//!
//! A node records itself before it writes to an index, and its index is complete after it was rebuilt. So the index of a
//! node that another one replaced is known to lack writes, also after a restart.

use std::sync::Arc;

use folio_types::{Error, OrgId, Reason, Result};

use super::{ConditionalRow, RowStore};
use crate::value::{IndexHolder, Stored as _, decode, encode};

/// Maximum attempts of a record that meets other records.
const ATTEMPTS: usize = 8;

/// The holders of indexes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct IndexHolderStore(Arc<dyn RowStore>);

fn group() -> String {
    IndexHolder::KIND.to_owned()
}

fn key() -> String {
    "holder".to_owned()
}

impl IndexHolderStore {
    pub fn new(rows: Arc<dyn RowStore>) -> Self {
        Self(rows)
    }

    /// Returns the node that was recorded last. None: no node has written to an index of the organization.
    pub async fn holder(&self, org: &OrgId) -> Result<Option<IndexHolder>> {
        self.row(org).await?.map(|row| decode(&row)).transpose()
    }

    /// Records a node whose index lacks documents, unless the node is the recorded one. Idempotent.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if other nodes record themselves at the same time.
    pub async fn claim(&self, org: &OrgId, address: &str) -> Result<()> {
        self.change(org, address, |holder| holder.address == address).await.map(drop)
    }

    /// Records a node that begins to build its index. Returns the term of the record.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if other nodes record themselves at the same time.
    pub async fn begin(&self, org: &OrgId, address: &str) -> Result<u64> {
        self.change(org, address, |_| false).await
    }

    /// Records that the index which a node began to build in this term is complete. Returns false if the record has
    /// another term. Idempotent.
    pub async fn complete(&self, org: &OrgId, address: &str, term: u64) -> Result<bool> {
        let Some(before) = self.row(org).await? else { return Ok(false) };
        let holder: IndexHolder = decode(&before)?;
        if holder.address != address || holder.term != term {
            return Ok(false);
        }
        Ok(holder.is_complete || self.replace(org, Some(before), &IndexHolder { is_complete: true, ..holder }).await?)
    }

    /// Records a node under the next term, unless the record is sufficient. Returns the term of the record.
    async fn change(
        &self,
        org: &OrgId,
        address: &str,
        is_sufficient: impl Fn(&IndexHolder) -> bool + Send + Sync,
    ) -> Result<u64> {
        for _ in 0..ATTEMPTS {
            let before = self.row(org).await?;
            let holder = before.as_deref().map(decode::<IndexHolder>).transpose()?;
            if let Some(holder) = holder.as_ref().filter(|holder| is_sufficient(holder)) {
                return Ok(holder.term);
            }
            let term = holder.map_or(1, |holder| holder.term.saturating_add(1));
            let after = IndexHolder { address: address.to_owned(), term, is_complete: false };
            if self.replace(org, before, &after).await? {
                return Ok(term);
            }
        }
        Err(Error::unavailable(Reason::StoreUnavailable, "several nodes claim an index of passages at the same time"))
    }

    async fn replace(&self, org: &OrgId, before: Option<Vec<u8>>, after: &IndexHolder) -> Result<bool> {
        let row = ConditionalRow { group: group(), key: key(), before, after: encode(after)?, guard: None };
        self.0.compare_and_set(org, row).await
    }

    async fn row(&self, org: &OrgId) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(org, &group(), &[key()]).await?.into_iter().next().flatten())
    }
}
