//! Encoded rows of organizations, by group and key.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{OrgId, Result};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads};
use folio_storage::{ConditionalRow, RowStore};

pub(crate) struct Rows(pub(crate) Arc<Engine>);

#[async_trait]
impl RowStore for Rows {
    async fn get(&self, org: &OrgId, group: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>> {
        self.0.read(|view| {
            let value =
                |key: &String| Ok(view.bytes(Space::Records, &keys::row(org, group, key))?.map(|bytes| bytes.to_vec()));
            keys.iter().map(value).collect()
        })
    }

    async fn list(&self, org: &OrgId, group: &str) -> Result<Vec<Vec<u8>>> {
        let range = Range::prefix(Space::Records, keys::rows(org, group));
        self.0.scan(move |view| view.select(range, usize::MAX, |_, bytes| Ok(Some(bytes.to_vec())))).await
    }

    async fn list_after(&self, org: &OrgId, group: &str, after: &str, limit: usize) -> Result<Vec<(String, Vec<u8>)>> {
        let prefix = keys::rows(org, group);
        let range = Range::prefix(Space::Records, prefix.clone()).after(keys::row(org, group, after));
        self.0
            .scan(move |view| {
                view.select(range, limit, |key, bytes| {
                    let key = key.get(prefix.len()..).unwrap_or_default();
                    Ok(Some((String::from_utf8_lossy(key).into_owned(), bytes.to_vec())))
                })
            })
            .await
    }

    async fn compare_and_set(&self, org: &OrgId, write: ConditionalRow) -> Result<bool> {
        let ConditionalRow { group, key, before, after, guard } = write;
        let key = keys::row(org, &group, &key);
        let guard = guard.map(|(key, value)| (keys::row(org, &group, &key), Some(value)));
        let conditions: Vec<_> = [(key.clone(), before)].into_iter().chain(guard).collect();
        self.0
            .write(move |transaction| {
                for (key, value) in &conditions {
                    if transaction.bytes(Space::Records, key)?.as_deref() != value.as_deref() {
                        return Ok(false);
                    }
                }
                transaction.put_bytes(Space::Records, key, after)?;
                Ok(true)
            })
            .await
    }

    async fn compare_and_remove(&self, org: &OrgId, group: &str, key: &str, before: Vec<u8>) -> Result<bool> {
        let key = keys::row(org, group, key);
        self.0
            .write(move |transaction| {
                let is_expected = transaction.bytes(Space::Records, &key)?.as_deref() == Some(before.as_slice());
                if is_expected {
                    transaction.remove(Space::Records, key);
                }
                Ok(is_expected)
            })
            .await
    }

    async fn put(&self, org: &OrgId, group: &str, key: &str, value: Vec<u8>) -> Result<()> {
        let key = keys::row(org, group, key);
        self.0.write_lazily(move |transaction| transaction.put_bytes(Space::Records, key, value)).await
    }

    async fn remove(&self, org: &OrgId, group: &str, key: &str) -> Result<()> {
        let key = keys::row(org, group, key);
        self.0.remove_lazily(Space::Records, vec![key]).await
    }

    async fn remove_group(&self, org: &OrgId, group: &str) -> Result<()> {
        let prefix = keys::rows(org, group);
        self.0.write(move |transaction| transaction.remove_all(Space::Records, prefix)).await
    }

    async fn check_space(&self) -> Result<()> {
        self.0.reserve().check()
    }
}
