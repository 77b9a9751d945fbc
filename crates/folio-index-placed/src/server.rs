//! Serves the index of a node to other processes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use folio_cluster::IndexCalls;
use folio_types::{OrgId, Result};

use crate::call::{Reply, decode, encode, make};
use crate::node::NodeIndex;
use crate::parts::Staged;

/// Executes the calls of other processes on the index of this node, and buffers the parts of large upserts until the last
/// part arrives.
pub struct IndexServer {
    index: Arc<NodeIndex>,
    staged: Mutex<Staged>,
}

impl IndexServer {
    pub fn new(index: Arc<NodeIndex>) -> Self {
        Self { index, staged: Mutex::default() }
    }

    fn staged(&self) -> MutexGuard<'_, Staged> {
        self.staged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl IndexCalls for IndexServer {
    async fn call(&self, org: &OrgId, call: Vec<u8>) -> Result<Vec<u8>> {
        let call = decode(&call)?;
        let accepted = self.staged().accept(org, call, Instant::now())?;
        match accepted {
            None => encode(&Reply::Done),
            Some(call) => encode(&make(&*self.index, org, call).await?),
        }
    }
}
