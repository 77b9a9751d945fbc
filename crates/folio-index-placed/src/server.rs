//! The calls of other processes to the index of a node.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use folio_cluster::IndexCalls;
use folio_index::IndexedDocument;
use folio_types::{OrgId, Result};

use crate::call::{Call, Reply, decode, encode, make};
use crate::node::NodeIndex;
use crate::parts::Staged;

/// Makes the calls of other processes.
pub struct IndexServer {
    index: Arc<NodeIndex>,
    staged: Mutex<Staged>,
}

impl IndexServer {
    pub fn new(index: Arc<NodeIndex>) -> Self {
        Self { index, staged: Mutex::default() }
    }

    /// Returns the call that the index makes. None: a part was added to an upsert.
    fn join(&self, org: &OrgId, call: Call) -> Result<Option<Call>> {
        let mut staged = self.staged.lock().unwrap_or_else(PoisonError::into_inner);
        match call {
            Call::Stage(part) => {
                let bytes = part.documents.iter().map(IndexedDocument::bytes).fold(0, usize::saturating_add);
                staged.add(org, part, bytes, Instant::now()).map(|()| None)
            }
            Call::Commit(part) => staged.finish(org, part, Instant::now()).map(Some),
            other => Ok(Some(other)),
        }
    }
}

#[async_trait]
impl IndexCalls for IndexServer {
    async fn call(&self, org: &OrgId, call: Vec<u8>) -> Result<Vec<u8>> {
        match self.join(org, decode(&call)?)? {
            None => encode(&Reply::Done),
            Some(call) => encode(&make(&*self.index, org, call).await?),
        }
    }
}
