//! Encoded rows of organizations in groups, for records that are no resources. [`super::AccessStore`] gives them types.

use async_trait::async_trait;
use folio_types::{OrgId, Result};

/// The conditional write of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionalRow {
    /// The group of the row and of its guard.
    pub group: &'static str,
    /// The key of the row.
    pub key: String,
    /// The stored value that the write replaces. None: the row must be absent.
    pub before: Option<Vec<u8>>,
    /// The new value.
    pub after: Vec<u8>,
    /// Another row of the group, by key, and the value that it must have.
    pub guard: Option<(String, Vec<u8>)>,
}

/// Rows of organizations, by group and key.
///
/// The rows of a group are written either under conditions only, or without conditions only.
#[async_trait]
pub trait RowStore: Send + Sync {
    /// Returns the value of each key, or none.
    async fn get(&self, org: &OrgId, group: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Returns the values of a group, by key. Reads all of them: for groups of at most some 10,000 rows.
    async fn list(&self, org: &OrgId, group: &str) -> Result<Vec<Vec<u8>>>;

    /// Writes a row if it and its guard have the values of the condition; returns false otherwise.
    async fn write(&self, org: &OrgId, write: ConditionalRow) -> Result<bool>;

    /// Writes a row without a condition. The write may be lost if the machine loses power.
    async fn put(&self, org: &OrgId, group: &str, key: &str, value: Vec<u8>) -> Result<()>;

    /// Removes a row without a condition.
    async fn remove(&self, org: &OrgId, group: &str, key: &str) -> Result<()>;
}
