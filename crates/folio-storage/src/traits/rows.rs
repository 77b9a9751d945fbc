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
/// A group is written either with conditions only or without conditions only. A row of a group with conditions that a process may
/// write at the same time is removed by [`Self::compare_and_remove`].
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

    /// Removes a row if it has the expected value; returns false otherwise.
    async fn compare_and_remove(&self, org: &OrgId, group: &str, key: &str, before: Vec<u8>) -> Result<bool>;

    /// Writes a row without a condition. The write may be lost if the machine loses power.
    async fn put(&self, org: &OrgId, group: &str, key: &str, value: Vec<u8>) -> Result<()>;

    async fn remove(&self, org: &OrgId, group: &str, key: &str) -> Result<()>;

    /// Removes all rows of a group. Idempotent.
    async fn remove_group(&self, org: &OrgId, group: &str) -> Result<()>;

    /// Checks that new content may be written as rows. The methods above do not check it, because deletions and the ends of turns
    /// also write rows. Default: a store on other machines accepts all content.
    ///
    /// # Errors
    /// `OVERLOADED` while the disk of the store has too little free space.
    async fn check_space(&self) -> Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for dyn RowStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RowStore")
    }
}

/// Rows in memory, for tests of writes that meet.
#[cfg(test)]
pub(crate) mod memory {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, MutexGuard};

    use futures::future::BoxFuture;

    use super::*;

    /// Groups by organization and name, with their rows by key.
    type Groups = BTreeMap<(OrgId, String), BTreeMap<String, Vec<u8>>>;

    #[derive(Default)]
    pub(crate) struct MemoryRows {
        groups: Mutex<Groups>,
        /// The name of a row, and the step that runs before the first plain write of it.
        step: Mutex<Option<(String, BoxFuture<'static, ()>)>>,
    }

    impl MemoryRows {
        /// Runs a step before the first plain write of the row with this name: its group and its key.
        pub(crate) fn before(&self, name: &str, step: impl Future<Output = ()> + Send + 'static) {
            *self.step.lock().unwrap() = Some((name.to_owned(), Box::pin(step)));
        }

        /// Returns the names of all rows.
        pub(crate) fn names(&self) -> Vec<String> {
            let groups = self.groups();
            groups.iter().flat_map(|((_, group), rows)| rows.keys().map(move |key| format!("{group}/{key}"))).collect()
        }

        fn groups(&self) -> MutexGuard<'_, Groups> {
            self.groups.lock().unwrap()
        }

        fn take_step(&self, name: &str) -> Option<BoxFuture<'static, ()>> {
            let mut step = self.step.lock().unwrap();
            step.take_if(|(of, _)| of == name).map(|(_, step)| step)
        }
    }

    #[async_trait]
    impl RowStore for MemoryRows {
        async fn get(&self, org: &OrgId, group: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>> {
            let groups = self.groups();
            let rows = groups.get(&(org.clone(), group.to_owned()));
            Ok(keys.iter().map(|key| rows.and_then(|rows| rows.get(key)).cloned()).collect())
        }

        async fn list(&self, org: &OrgId, group: &str) -> Result<Vec<Vec<u8>>> {
            let rows = self.groups().get(&(org.clone(), group.to_owned())).cloned().unwrap_or_default();
            Ok(rows.into_values().collect())
        }

        async fn list_after(
            &self,
            org: &OrgId,
            group: &str,
            after: &str,
            limit: usize,
        ) -> Result<Vec<(String, Vec<u8>)>> {
            let rows = self.groups().get(&(org.clone(), group.to_owned())).cloned().unwrap_or_default();
            Ok(rows.into_iter().filter(|(key, _)| key.as_str() > after).take(limit).collect())
        }

        async fn compare_and_set(&self, org: &OrgId, write: ConditionalRow) -> Result<bool> {
            let ConditionalRow { group, key, before, after, guard } = write;
            let mut groups = self.groups();
            let rows = groups.entry((org.clone(), group)).or_default();
            let is_expected =
                rows.get(&key) == before.as_ref() && guard.is_none_or(|(key, value)| rows.get(&key) == Some(&value));
            if is_expected {
                rows.insert(key, after);
            }
            Ok(is_expected)
        }

        async fn compare_and_remove(&self, org: &OrgId, group: &str, key: &str, before: Vec<u8>) -> Result<bool> {
            let mut groups = self.groups();
            let Some(rows) = groups.get_mut(&(org.clone(), group.to_owned())) else { return Ok(false) };
            let is_expected = rows.get(key) == Some(&before);
            if is_expected {
                rows.remove(key);
            }
            Ok(is_expected)
        }

        async fn put(&self, org: &OrgId, group: &str, key: &str, value: Vec<u8>) -> Result<()> {
            if let Some(step) = self.take_step(&format!("{group}/{key}")) {
                step.await;
            }
            self.groups().entry((org.clone(), group.to_owned())).or_default().insert(key.to_owned(), value);
            Ok(())
        }

        async fn remove(&self, org: &OrgId, group: &str, key: &str) -> Result<()> {
            if let Some(rows) = self.groups().get_mut(&(org.clone(), group.to_owned())) {
                rows.remove(key);
            }
            Ok(())
        }

        async fn remove_group(&self, org: &OrgId, group: &str) -> Result<()> {
            self.groups().remove(&(org.clone(), group.to_owned()));
            Ok(())
        }
    }
}
