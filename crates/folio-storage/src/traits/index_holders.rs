//! The node that has the complete index of passages of each organization, as rows of a [`RowStore`].
//!
//! A node records itself before it builds an index, and compares the record before each write. The index of a node that
//! another one replaced is therefore known to be incomplete, also after a restart.

use std::sync::Arc;

use folio_types::{Error, OrgId, Reason, Result};

use super::{ConditionalRow, RowStore};
use crate::value::{IndexHolder, Stored as _, decode, encode};

/// Maximum attempts of a record that meets other records.
const ATTEMPTS: usize = 8;

/// The holders of indexes. Cheap to clone.
#[derive(Clone)]
pub struct IndexHolderStore(Arc<dyn RowStore>);

impl std::fmt::Debug for IndexHolderStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IndexHolderStore")
    }
}

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

    /// Returns the address of the node that was recorded last. None: no node built an index of the organization.
    pub async fn holder(&self, org: &OrgId) -> Result<Option<String>> {
        let row = self.row(org).await?;
        row.map(|row| Ok(decode::<IndexHolder>(&row)?.address)).transpose()
    }

    /// Records a node. Idempotent.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` if other nodes record themselves at the same time.
    pub async fn record(&self, org: &OrgId, address: &str) -> Result<()> {
        let after = encode(&IndexHolder { address: address.to_owned() })?;
        for _ in 0..ATTEMPTS {
            let before = self.row(org).await?;
            if before.as_ref() == Some(&after) {
                return Ok(());
            }
            let row = ConditionalRow { group: group(), key: key(), before, after: after.clone(), guard: None };
            if self.0.compare_and_set(org, row).await? {
                return Ok(());
            }
        }
        Err(Error::unavailable(Reason::StoreUnavailable, "several nodes claim an index of passages at the same time"))
    }

    async fn row(&self, org: &OrgId) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(org, &group(), &[key()]).await?.into_iter().next().flatten())
    }
}
