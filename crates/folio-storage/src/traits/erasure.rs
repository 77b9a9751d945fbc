//! Erasure of organizations.

use std::collections::BTreeSet;

use async_trait::async_trait;
use folio_types::{OrgId, Result};

/// Removes all data of deleted organizations.
///
/// A turn or a request that was in progress when an organization was deleted may still write below it for a while. The caller
/// therefore erases it again after that time, before it forgets the deletion.
#[async_trait]
pub trait ErasureStore: Send + Sync {
    /// Removes every row of these organizations, also rows that no index leads to: reads the keys of all organizations. The records
    /// of the organizations themselves belong to the platform and stay. Idempotent; may be interrupted and repeated.
    async fn erase(&self, orgs: &BTreeSet<OrgId>) -> Result<()>;
}
