//! Encoded rows of organizations in groups, for records that are not resources. [`super::AccessStore`] decodes them.

use async_trait::async_trait;
use folio_types::{OrgId, Result};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionalRow {
    /// The group of the row and of its guard.
    pub group: String,
    pub key: String,
    /// The stored value that the write replaces. None: the row must be absent.
    pub before: Option<Vec<u8>>,
    pub after: Vec<u8>,
    /// Another row of the group, by key, and the value that it must have for the write to succeed.
    pub guard: Option<(String, Vec<u8>)>,
}

/// Rows of organizations, by group and key.
///
/// A group is written either with conditions only or without conditions only. A row of a group with conditions is removed
/// only once no process writes it.
#[async_trait]
pub trait RowStore: Send + Sync {
    /// Returns the values in the order of `keys`.
    async fn get(&self, org: &OrgId, group: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Returns the values of a group, ordered by key. Reads all of them: for groups of at most about 10,000 rows;
    /// [`Self::list_after`] reads larger ones in parts.
    async fn list(&self, org: &OrgId, group: &str) -> Result<Vec<Vec<u8>>>;

    /// Returns at most `limit` rows of a group with a key after `after`, with their keys, ordered by key. An empty `after` is
    /// before every key.
    async fn list_after(&self, org: &OrgId, group: &str, after: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>>;

    /// Writes a row if it and its guard have the expected values; returns false otherwise.
    async fn compare_and_set(&self, org: &OrgId, write: ConditionalRow) -> Result<bool>;

    /// Writes a row without a condition. The write may be lost if the machine loses power.
    async fn put(&self, org: &OrgId, group: &str, key: &str, value: Vec<u8>) -> Result<()>;

    async fn remove(&self, org: &OrgId, group: &str, key: &str) -> Result<()>;

    /// Removes all rows of a group. Idempotent.
    async fn remove_group(&self, org: &OrgId, group: &str) -> Result<()>;
}
