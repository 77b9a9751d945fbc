//! Encoded rows of organizations, by group and key.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{OrgId, Result};
use futures::{StreamExt as _, TryStreamExt as _};

use super::keyspace::Keyspace;
use super::session::{ConditionalResult, Read};
use folio_storage::{ConditionalRow, RowStore};

/// Maximum number of rows that are read concurrently.
const READ_AT_ONCE: usize = 16;

pub(crate) struct Rows(pub(crate) Arc<Keyspace>);

#[async_trait]
impl RowStore for Rows {
    async fn get(&self, org: &OrgId, group: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>> {
        let read = |key: String| async move { self.0.tables.rows.get((org, group), &key, Read::Quorum).await };
        futures::stream::iter(keys.to_vec()).map(read).buffered(READ_AT_ONCE).try_collect().await
    }

    async fn list(&self, org: &OrgId, group: &str) -> Result<Vec<Vec<u8>>> {
        self.0.tables.rows.list((org, group)).await
    }

    async fn list_after(&self, org: &OrgId, group: &str, after: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>> {
        match limit {
            0 => Ok(Vec::new()),
            _ => self.0.tables.rows.list_after((org, group), after, limit).await,
        }
    }

    async fn compare_and_set(&self, org: &OrgId, write: ConditionalRow) -> Result<bool> {
        let ConditionalRow { group, key, before, after, guard } = write;
        let group = group.as_str();
        let rows = &self.0.tables.rows;
        let mut batch = vec![match before {
            Some(before) => rows.replace((org, group), &key, before, after.clone()),
            None => rows.insert((org, group), &key, after.clone()),
        }];
        // Replacing a value by an equal value only checks that the row is unchanged.
        batch.extend(guard.map(|(key, value)| rows.replace((org, group), &key, value.clone(), value)));
        match self.0.commit(batch).await? {
            ConditionalResult::Applied => Ok(true),
            ConditionalResult::Refused => Ok(false),
            ConditionalResult::Unknown(_) => Ok(rows.get((org, group), &key, Read::Serial).await? == Some(after)),
        }
    }

    async fn compare_and_remove(&self, org: &OrgId, group: &str, key: &str, before: Vec<u8>) -> Result<bool> {
        let rows = &self.0.tables.rows;
        match self.0.commit(vec![rows.remove_equal((org, group), key, before)]).await? {
            ConditionalResult::Applied => Ok(true),
            ConditionalResult::Refused => Ok(false),
            ConditionalResult::Unknown(_) => Ok(rows.get((org, group), key, Read::Serial).await?.is_none()),
        }
    }

    async fn put(&self, org: &OrgId, group: &str, key: &str, value: Vec<u8>) -> Result<()> {
        self.0.tables.rows.put((org, group), key, value).await
    }

    async fn remove(&self, org: &OrgId, group: &str, key: &str) -> Result<()> {
        self.0.tables.rows.remove((org, group), key).await
    }

    async fn remove_group(&self, org: &OrgId, group: &str) -> Result<()> {
        self.0.tables.rows.remove_group((org, group)).await
    }
}
