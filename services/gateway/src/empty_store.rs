//! Stores of tokens and members for tests.

use std::ops::RangeInclusive;
use std::sync::Arc;

use async_trait::async_trait;
use folio_resources::{Kind, ListQuery, NewName, ResourceWrite};
use folio_storage::value::DeletionRow;
use folio_storage::{
    AccessStore, AccountStore, ConditionalRow, ResourceExecutor, ResourceUsage, RowStore, StoredResource,
    UnreadableRecords,
};
use folio_types::op::WriteOutcome;
use folio_types::page::{Page, PageRequest};
use folio_types::{BlobId, Error, OrgId, Result, System, Timestamp, TokenId};

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
        let rows: Arc<dyn RowStore> = Arc::new(self);
        let stores = (AccessStore::new(Arc::clone(&rows)), AccountStore::new(rows, UnreadableRecords::default()));
        Authenticator::new(stores, &resources, Arc::new(System), Issuers::default(), options)
    }
}

/// Implements a store with these methods, and with others that no test calls.
macro_rules! store {
    ($store:ident { $implemented:item } $($method:ident($($argument:ty),*) -> $output:ty;)+) => {
        #[async_trait]
        impl $store for EmptyStore {
            $implemented
            $(async fn $method(&self, $(_: $argument),*) -> Result<$output> {
                Err(Error::internal("unexpected call"))
            })+
        }
    };
}

store! {
    RowStore {
        async fn get(&self, _: &OrgId, _: &str, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>> {
            Ok(vec![None; keys.len()])
        }
    }
    list(&OrgId, &str) -> Vec<Vec<u8>>;
    list_after(&OrgId, &str, &str, usize) -> Vec<(String, Vec<u8>)>;
    compare_and_set(&OrgId, ConditionalRow) -> bool;
    compare_and_remove(&OrgId, &str, &str, Vec<u8>) -> bool;
    put(&OrgId, &str, &str, Vec<u8>) -> ();
    remove(&OrgId, &str, &str) -> ();
    remove_group(&OrgId, &str) -> ();
}

store! {
    ResourceExecutor {
        async fn get(&self, _: &OrgId, _: &'static Kind, ids: &[String]) -> Result<Vec<Option<StoredResource>>> {
            if self.silent.as_ref().is_some_and(|silent| ids.iter().any(|id| id == silent.as_str())) {
                std::future::pending::<()>().await;
            }
            Ok(vec![None; ids.len()])
        }
    }
    decide(ResourceWrite) -> WriteOutcome;
    id_by_name(&OrgId, &'static Kind, &str) -> Option<String>;
    list(&OrgId, ListQuery, &PageRequest) -> Page<StoredResource>;
    list_versions(&OrgId, ListQuery, &PageRequest) -> Page<(String, u64)>;
    versions(&OrgId, &'static Kind, &[String]) -> Vec<Option<u64>>;
    matching_ids(&OrgId, ListQuery, usize) -> Vec<String>;
    referrers(&OrgId, &'static Kind, &str, usize) -> Vec<String>;
    revision_numbers(&OrgId, &str) -> Vec<u32>;
    name_revision(&OrgId, NewName) -> ();
    revisions(&OrgId, &str, &[u32]) -> Vec<Option<Vec<u8>>>;
    resource_usage(&OrgId, &'static Kind) -> ResourceUsage;
    content_bytes(&OrgId) -> u64;
    set_blob_bytes(&OrgId, &str, &BlobId, u64, Timestamp) -> ();
    set_image_bytes(&OrgId, &str, u64, Timestamp) -> ();
    indexed_deletions(&'static Kind, &RangeInclusive<Timestamp>, Option<&DeletionRow>, usize) -> Vec<DeletionRow>;
    confirm_deletion(&'static Kind, &DeletionRow) -> bool;
    clean_deleted(&OrgId, &'static Kind, &str, bool) -> ();
}
