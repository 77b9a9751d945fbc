//! The adapter for every process: routes each call to the node on which the organization is placed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_cluster::placement::place_regardless_of_load;
use folio_cluster::{Membership, NodePeer as _, Peers};
use folio_index::adapter::validate_upsert;
use folio_index::{Answer, IndexState, IndexedDocument, ListedDocument, PassageIndex, Search, Statistics, Written};
use folio_types::{DocumentId, Environment, Error, OrgId, Reason, Result};

use crate::call::{Call, Part, Reply, decode, encode, make, unexpected};
use crate::node::NodeIndex;
use crate::parts::divide;

/// The name of indexes in the placement.
const PLACED: &str = "index of passages";
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The placement of organizations on nodes.
pub trait Placement: Send + Sync {
    /// Returns the address of the node on which the index of an organization is placed. None: no node is live.
    fn node_of(&self, org: &OrgId) -> Option<String>;

    /// Returns the addresses of all live nodes.
    fn nodes(&self) -> Vec<String>;
}

impl Placement for Membership {
    fn node_of(&self, org: &OrgId) -> Option<String> {
        let live = self.live().borrow().clone();
        place_regardless_of_load(org, PLACED, &live).map(|member| member.node.address.clone())
    }

    fn nodes(&self) -> Vec<String> {
        self.live().borrow().iter().map(|member| member.node.address.clone()).collect()
    }
}

/// The nodes in other processes.
#[async_trait]
pub trait Nodes: Send + Sync {
    /// Makes an encoded call of the index of the node at an address.
    async fn call_index(&self, address: &str, org: &OrgId, call: Vec<u8>) -> Result<Vec<u8>>;
}

#[async_trait]
impl Nodes for Peers {
    async fn call_index(&self, address: &str, org: &OrgId, call: Vec<u8>) -> Result<Vec<u8>> {
        self.at(address)?.call_index(org, call).await
    }
}

/// The index of passages in a cluster. Each call is made by the node on which the organization is placed.
///
/// Errors: `NODE_LOST` if that node is unreachable. The membership then places the organization on another node.
pub struct PlacedIndex {
    placement: Arc<dyn Placement>,
    nodes: Arc<dyn Nodes>,
    environment: Arc<dyn Environment>,
    /// The index of this process, if it is a node.
    own: Option<Arc<NodeIndex>>,
    /// Maximum size of a request between processes, in bytes.
    request_bytes: usize,
}

impl PlacedIndex {
    /// Creates the adapter of a process. `own`: the index of this process, if it is a node. `request_bytes`: the setting
    /// `cluster.request_bytes`.
    pub fn new(
        placement: Arc<dyn Placement>,
        nodes: Arc<dyn Nodes>,
        environment: Arc<dyn Environment>,
        own: Option<Arc<NodeIndex>>,
        request_bytes: usize,
    ) -> Self {
        Self { placement, nodes, environment, own, request_bytes }
    }

    fn node_of(&self, org: &OrgId) -> Result<String> {
        self.placement.node_of(org).ok_or_else(|| {
            let message = "no node of the cluster is live to search the passages of the organization";
            Error::unavailable(Reason::StoreUnavailable, message).retry_after(RETRY_AFTER)
        })
    }

    fn own_at(&self, address: &str) -> Option<&NodeIndex> {
        self.own.as_deref().filter(|own| own.address() == address)
    }

    async fn call(&self, org: &OrgId, call: Call) -> Result<Reply> {
        self.call_at(&self.node_of(org)?, org, call).await
    }

    async fn call_at(&self, address: &str, org: &OrgId, call: Call) -> Result<Reply> {
        if let Some(own) = self.own_at(address) {
            return make(own, org, call).await;
        }
        let result = self.nodes.call_index(address, org, encode(&call)?).await?;
        decode(&result).map_err(|error| Error::internal(format!("the result of a node cannot be read: {error}")))
    }

    /// Sends an upsert in parts. The node applies it when the last part arrives.
    async fn upsert_at(&self, address: &str, org: &OrgId, documents: Vec<IndexedDocument>) -> Result<Reply> {
        // A tenth remains for the names of the fields and the rest of the message.
        let mut parts = divide(documents, self.request_bytes / 10 * 9);
        let Some(last) = parts.pop() else { return Err(Error::internal("a write has no parts")) };
        if parts.is_empty() {
            return self.call_at(address, org, Call::Upsert { documents: last }).await;
        }
        let upload = self.environment.uuid().to_string();
        let count = parts.len();
        for (number, documents) in parts.into_iter().enumerate() {
            let part = Part { upload: upload.clone(), number, documents };
            match self.call_at(address, org, Call::Stage(part)).await? {
                Reply::Done => {}
                other => return Err(unexpected(&other)),
            }
        }
        self.call_at(address, org, Call::Commit(Part { upload, number: count, documents: last })).await
    }
}

fn written(reply: Reply) -> Result<Written> {
    match reply {
        Reply::Written(written) => Ok(written),
        other => Err(unexpected(&other)),
    }
}

fn done(reply: Reply) -> Result<()> {
    match reply {
        Reply::Done => Ok(()),
        other => Err(unexpected(&other)),
    }
}

#[async_trait]
impl PassageIndex for PlacedIndex {
    async fn state(&self, org: &OrgId) -> Result<IndexState> {
        match self.call(org, Call::State).await? {
            Reply::State(state) => Ok(state),
            other => Err(unexpected(&other)),
        }
    }

    async fn begin_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<()> {
        done(self.call(org, Call::BeginRebuild { rebuild }).await?)
    }

    async fn finish_rebuild(&self, org: &OrgId, rebuild: u64) -> Result<Written> {
        written(self.call(org, Call::FinishRebuild { rebuild }).await?)
    }

    async fn upsert(&self, org: &OrgId, documents: Vec<IndexedDocument>) -> Result<Written> {
        validate_upsert(&documents)?;
        let address = self.node_of(org)?;
        match self.own_at(&address) {
            Some(own) => own.upsert(org, documents).await,
            None => written(self.upsert_at(&address, org, documents).await?),
        }
    }

    async fn delete_documents(&self, org: &OrgId, documents: &[DocumentId]) -> Result<Written> {
        written(self.call(org, Call::DeleteDocuments { documents: documents.to_vec() }).await?)
    }

    /// Removes the index of an organization from all live nodes, also from those on which it was placed before.
    async fn delete_organization(&self, org: &OrgId) -> Result<()> {
        let mut failed = None;
        for address in self.placement.nodes() {
            if let Err(error) = self.call_at(&address, org, Call::DeleteOrganization).await.and_then(done) {
                failed = Some(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn search(&self, org: &OrgId, search: &Search) -> Result<Answer> {
        search.validate()?;
        match self.call(org, Call::Search { search: search.clone() }).await? {
            Reply::Answer(answer) => Ok(answer),
            other => Err(unexpected(&other)),
        }
    }

    async fn documents(&self, org: &OrgId, after: Option<&DocumentId>, limit: usize) -> Result<Vec<ListedDocument>> {
        match self.call(org, Call::Documents { after: after.cloned(), limit }).await? {
            Reply::Documents(documents) => Ok(documents),
            other => Err(unexpected(&other)),
        }
    }

    async fn statistics(&self, org: &OrgId) -> Result<Statistics> {
        match self.call(org, Call::Statistics).await? {
            Reply::Statistics(statistics) => Ok(statistics),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the organizations of which this process has data: each node reports its own.
    async fn organizations(&self) -> Result<Vec<OrgId>> {
        match &self.own {
            Some(own) => own.organizations().await,
            None => Ok(Vec::new()),
        }
    }
}
