//! Faults of [`RowStore`].

use async_trait::async_trait;
use folio_storage::{ConditionalRow, RowStore};
use folio_types::{OrgId, Result};

use crate::layer::RowLayer;

#[derive(Default)]
pub(super) struct RowOverwritten;

#[async_trait]
impl RowLayer for RowOverwritten {
    async fn compare_and_set(&self, below: &dyn RowStore, org: &OrgId, write: ConditionalRow) -> Result<bool> {
        if below.compare_and_set(org, write.clone()).await? {
            return Ok(true);
        }
        let before = below.get(org, &write.group, std::slice::from_ref(&write.key)).await?.pop().flatten();
        below.compare_and_set(org, ConditionalRow { before, guard: None, ..write }).await
    }
}

#[derive(Default)]
pub(super) struct RowGroupKept;

#[async_trait]
impl RowLayer for RowGroupKept {
    async fn remove_group(&self, _: &dyn RowStore, _: &OrgId, _: &str) -> Result<()> {
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct RowRemovedAnyway;

#[async_trait]
impl RowLayer for RowRemovedAnyway {
    async fn compare_and_remove(
        &self,
        below: &dyn RowStore,
        org: &OrgId,
        group: &str,
        key: &str,
        _: Vec<u8>,
    ) -> Result<bool> {
        below.remove(org, group, key).await.map(|()| true)
    }
}
