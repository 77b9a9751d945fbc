//! Stores of tokens and members for tests.

use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{Kind, ListQuery, ResourceWrite};
use folio_storage::{AccessStore, ConditionalRow, Holdings, ResourceExecutor, RowStore, StoredResource};
use folio_types::op::WriteOutcome;
use folio_types::page::{Page, PageRequest};
use folio_types::{OrgId, Result, System, Timestamp, TokenId};

use crate::authenticator::Authenticator;
use crate::jwt::Issuers;
use crate::options::Options;

#[derive(Clone, Default)]
pub(crate) struct EmptyStore {
    /// The token whose read never returns. None: every read finds nothing.
    pub(crate) silent: Option<TokenId>,
}

impl EmptyStore {
    pub(crate) fn authenticator(self, options: &Options) -> Authenticator {
        let resources: Arc<dyn ResourceExecutor> = Arc::new(self.clone());
        Authenticator::new(AccessStore::new(Arc::new(self)), &resources, Arc::new(System), Issuers::default(), options)
    }
}

#[async_trait]
impl RowStore for EmptyStore {
    async fn get(&self, _: &OrgId, _: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>> {
        Ok(vec![None; keys.len()])
    }
    async fn list(&self, _: &OrgId, _: &str) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }
    async fn write(&self, _: &OrgId, _: ConditionalRow) -> Result<bool> {
        Ok(false)
    }
    async fn put(&self, _: &OrgId, _: &str, _: &str, _: Vec<u8>) -> Result<()> {
        Ok(())
    }
    async fn remove(&self, _: &OrgId, _: &str, _: &str) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl ResourceExecutor for EmptyStore {
    async fn decide(&self, _: ResourceWrite) -> Result<WriteOutcome> {
        Ok(WriteOutcome::VersionMismatch)
    }
    async fn get(&self, _: &OrgId, _: &'static Kind, ids: &[String]) -> Result<Vec<Option<StoredResource>>> {
        if self.silent.as_ref().is_some_and(|silent| ids.iter().any(|id| id == silent.as_str())) {
            std::future::pending::<()>().await;
        }
        Ok(vec![None; ids.len()])
    }
    async fn id_by_name(&self, _: &OrgId, _: &'static Kind, _: &str) -> Result<Option<String>> {
        Ok(None)
    }
    async fn list(&self, _: &OrgId, _: ListQuery, _: &PageRequest) -> Result<Page<StoredResource>> {
        Ok(Page { items: Vec::new(), next: None, total: 0 })
    }
    async fn revisions(&self, _: &OrgId, _: &str, numbers: &[u32]) -> Result<Vec<Option<Vec<u8>>>> {
        Ok(vec![None; numbers.len()])
    }
    async fn holdings(&self, _: &OrgId, _: &'static Kind) -> Result<Holdings> {
        Ok(Holdings::default())
    }
    async fn deleted(&self, _: &'static Kind, _: usize) -> Result<Vec<(OrgId, String, Timestamp)>> {
        Ok(Vec::new())
    }
    async fn forget_deleted(&self, _: &OrgId, _: &'static Kind, _: &str) -> Result<()> {
        Ok(())
    }
    async fn scrub_deleted(&self, _: &'static Kind, _: Timestamp, _: usize) -> Result<usize> {
        Ok(0)
    }
}
