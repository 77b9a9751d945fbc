//! The index of a node for the organizations that are placed on it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use folio_index::{
    Answer, Gap, IndexState, IndexedDocument, ListedDocument, PassageIndex, Search, Statistics, Written,
};
use folio_storage::IndexHolderStore;
use folio_types::{DocumentId, Error, OrgId, Reason, Result};

use crate::placed::Placement;

/// The index in the folder of a node. The state of an index is `Ready` only if this node is recorded as the holder of a
/// complete index: while another node was recorded, that node received the writes.
///
/// Each write records this node first, so that no other node has a complete index that lacks the write. A write that
/// reaches a former holder, whose membership view is old, makes the index of its successor incomplete; the next sweep
/// rebuilds it.
pub struct NodeIndex {
    local: Arc<dyn PassageIndex>,
    holders: IndexHolderStore,
    placement: Arc<dyn Placement>,
    /// The address of this node.
    address: String,
    /// The newest rebuild of each index that began at this process, with its term.
    terms: Mutex<HashMap<OrgId, (u64, u64)>>,
}

impl NodeIndex {
    /// Creates the adapter. `address`: the address under which the placement knows this node.
    pub fn new(
        local: Arc<dyn PassageIndex>,
        holders: IndexHolderStore,
        placement: Arc<dyn Placement>,
        address: &str,
    ) -> Self {
        Self { local, holders, placement, address: address.to_owned(), terms: Mutex::default() }
    }

    fn check_placement(&self, org: &OrgId) -> Result<()> {
        if self.placement.node_of(org).as_deref() == Some(&*self.address) {
            return Ok(());
        }
        let message = "the index of the organization is placed on another node; repeat the request";
        Err(Error::unavailable(Reason::StoreUnavailable, message).retry_after(crate::placed::RETRY_AFTER))
    }

    fn terms(&self) -> MutexGuard<'_, HashMap<OrgId, (u64, u64)>> {
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    async fn is_complete(&self, org: &OrgId) -> Result<bool> {
        let holder = self.holders.holder(org).await?;
        Ok(holder.is_some_and(|holder| holder.address == self.address && holder.is_complete))
    }

    /// Returns the state that callers see. An index that lacks writes counts as being rebuilt, so that searches use it
    /// and name the gap, and the caller rebuilds it.
    async fn seen_state(&self, org: &OrgId) -> Result<IndexState> {
        let state = self.local.state(org).await?;
        if state == IndexState::Ready && !self.is_complete(org).await? {
            return Ok(IndexState::Rebuilding);
        }
        Ok(state)
    }

    /// Checks the placement, and records this node before a write.
    async fn prepare_write(&self, org: &OrgId) -> Result<()> {
        self.check_placement(org)?;
        self.holders.claim(org, &self.address).await
    }

    /// Removes the indexes of organizations that are placed on other nodes, except those of which this node is still the
    /// recorded holder. Returns their number.
    pub async fn remove_misplaced(&self) -> Result<usize> {
        let mut removed = 0usize;
        for org in self.local.organizations().await? {
            let is_elsewhere = self.placement.node_of(&org).is_some_and(|address| address != self.address);
            if !is_elsewhere {
                continue;
            }
            let holder = self.holders.holder(&org).await?;
            if holder.is_none_or(|holder| holder.address != self.address) {
                self.local.delete_organization(&org).await?;
                removed = removed.saturating_add(1);
            }
        }
        Ok(removed)
    }
}

/// Removes misplaced indexes after each interval. Never returns.
pub async fn maintain(index: &NodeIndex, interval: Duration) {
    loop {
        tokio::time::sleep(interval).await;
        match index.remove_misplaced().await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "indexes of passages that moved to other nodes were removed"),
            Err(error) => tracing::warn!(%error, "indexes of passages that moved to other nodes are removed later"),
        }
    }
}

fn name_gap(answer: &mut Answer) {
    for part in [&mut answer.lexical, &mut answer.dense] {
        part.gaps.push(Gap::State(IndexState::Rebuilding));
    }
}

#[async_trait]
impl PassageIndex for NodeIndex {
    async fn state(&self, org: &OrgId) -> Result<IndexState> {
        self.check_placement(org)?;
        self.seen_state(org).await
    }

    async fn begin_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<()> {
        self.check_placement(org)?;
        let term = self.holders.begin(org, &self.address).await?;
        self.terms().insert(org.clone(), (rebuild, term));
        self.local.begin_rebuild(org, rebuild).await
    }

    async fn finish_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<Written> {
        self.check_placement(org)?;
        let state = self.local.state(org).await?;
        if state == IndexState::Ready {
            // An index that was not emptied since other nodes received writes is not complete.
            let is_complete = self.is_complete(org).await?;
            return Ok(if is_complete {
                Written::Applied { stale: 0 }
            } else {
                Written::NotUsable(IndexState::Rebuilding)
            });
        }
        // The process may have been started again since the rebuild began, or another rebuild may have begun.
        let newest = self.terms().get(org).copied();
        let Some((_, term)) = newest.filter(|(newest, _)| *newest == rebuild) else {
            return Ok(Written::NotUsable(state));
        };
        let finished = self.local.finish_rebuild(org, rebuild).await?;
        if finished != (Written::Applied { stale: 0 }) {
            return Ok(finished);
        }
        // Another node may have received writes since the rebuild began.
        if !self.holders.complete(org, &self.address, term).await? {
            return Ok(Written::NotUsable(IndexState::Rebuilding));
        }
        Ok(finished)
    }

    async fn upsert(&self, org: &OrgId, documents: Vec<IndexedDocument>) -> Result<Written> {
        self.prepare_write(org).await?;
        self.local.upsert(org, documents).await
    }

    async fn delete_documents(&self, org: &OrgId, documents: &[DocumentId]) -> Result<Written> {
        self.prepare_write(org).await?;
        self.local.delete_documents(org, documents).await
    }

    async fn delete_organization(&self, org: &OrgId) -> Result<()> {
        self.local.delete_organization(org).await
    }

    async fn search(&self, org: &OrgId, search: &Search) -> Result<Answer> {
        self.check_placement(org)?;
        let mut answer = self.local.search(org, search).await?;
        let is_ready = self.local.state(org).await? == IndexState::Ready;
        if is_ready && !self.is_complete(org).await? {
            name_gap(&mut answer);
        }
        Ok(answer)
    }

    async fn documents(&self, org: &OrgId, after: Option<&DocumentId>, limit: usize) -> Result<Vec<ListedDocument>> {
        self.check_placement(org)?;
        self.local.documents(org, after, limit).await
    }

    async fn statistics(&self, org: &OrgId) -> Result<Statistics> {
        self.check_placement(org)?;
        let statistics = self.local.statistics(org).await?;
        Ok(Statistics { state: self.seen_state(org).await?, ..statistics })
    }

    async fn organizations(&self) -> Result<Vec<OrgId>> {
        self.local.organizations().await
    }
}
