//! The index of passages of this process: on a Qdrant server, in a folder of the process, or on the nodes of the cluster.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use folio_blobs::DiskReserve;
use folio_cluster::{IndexCalls, Membership};
use folio_index::{EmbeddedIndex, PassageIndex};
use folio_index_placed::{IndexServer, NodeIndex, PlacedIndex, Placement as _, maintain};
use folio_index_qdrant::QdrantIndex;
use folio_knowledge::IsResponsible;
use folio_storage::ClusterNode;
use folio_types::OrgId;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::SharedComponents;
use super::cluster::Cluster;
use super::stores::with_setting;
use crate::settings::{self, Settings};

/// Maximum interval between two removals of indexes that moved to other nodes.
const MISPLACED_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct OpenIndex {
    /// Finds the passages of all organizations.
    pub(crate) index: Arc<dyn PassageIndex>,
    /// The calls of other processes, which the node serves. None: the process has no index that others call.
    pub(crate) calls: Option<Arc<dyn IndexCalls>>,
    /// Returns true for the organizations whose indexes this process compares with the stores.
    pub(crate) is_responsible: IsResponsible,
    /// The index again, if it is on a Qdrant server, for metrics.
    pub(crate) qdrant: Option<Arc<QdrantIndex>>,
    /// The tasks for indexes that move between nodes. Dropping the set stops the tasks.
    tasks: JoinSet<()>,
}

impl OpenIndex {
    fn new(index: Arc<dyn PassageIndex>, is_responsible: IsResponsible) -> Self {
        Self { index, calls: None, is_responsible, qdrant: None, tasks: JoinSet::new() }
    }

    /// Sends a notification after each change of the nodes that accept work, because indexes are placed on other nodes then.
    pub(crate) fn notify_of_changes(&mut self, membership: &Membership, changed: Arc<Notify>) {
        let mut live = membership.live();
        self.tasks.spawn(async move {
            let mut before = accepting(&live.borrow_and_update());
            while live.changed().await.is_ok() {
                let now = accepting(&live.borrow_and_update());
                if now != before {
                    changed.notify_one();
                }
                before = now;
            }
        });
    }
}

/// Returns the addresses of the nodes that accept work.
fn accepting(live: &[ClusterNode]) -> BTreeSet<String> {
    live.iter().filter(|member| !member.node.draining).map(|member| member.node.address.clone()).collect()
}

fn always() -> IsResponsible {
    Arc::new(|_: &OrgId| true)
}

/// Opens the index. `cluster`: the cluster, if the process is a part of one, and the address at which its node listens, if
/// it is a node. `folder`: returns the folder of an embedded index; a Qdrant server and a gateway need none.
pub(crate) async fn open(
    settings: &Settings,
    base: &SharedComponents,
    cluster: Option<(&Cluster, Option<SocketAddr>)>,
    folder: impl FnOnce() -> Result<PathBuf>,
) -> Result<OpenIndex> {
    let environment = Arc::clone(&base.environment);
    if let Some(options) = settings::qdrant(&settings.index) {
        let index = Arc::new(QdrantIndex::new(&options, environment).await.map_err(with_setting("index"))?);
        let is_responsible: IsResponsible = match cluster {
            None => always(),
            Some((cluster, _)) => {
                let membership = cluster.membership.clone();
                Arc::new(move |_: &OrgId| membership.is_first())
            }
        };
        let qdrant = Some(Arc::clone(&index));
        return Ok(OpenIndex { qdrant, ..OpenIndex::new(index, is_responsible) });
    }
    let embedded = |folder: PathBuf| -> Result<Arc<dyn PassageIndex>> {
        let reserve = DiskReserve::new(folder.clone(), settings.storage.reserve_bytes);
        let index = EmbeddedIndex::open(folder, settings.index.embedded()).map_err(with_setting("index"))?;
        Ok(Arc::new(index.with_space_check(Arc::new(move || reserve.check()))))
    };
    let Some((cluster, listener)) = cluster else {
        return Ok(OpenIndex::new(embedded(folder()?)?, always()));
    };
    let (membership, nodes) = (cluster.membership.clone(), Arc::new(cluster.peers.clone()));
    let request_bytes = cluster.options.request_bytes;
    let Some(listener) = listener else {
        let index = PlacedIndex::new(Arc::new(membership), nodes, environment, None, request_bytes);
        return Ok(OpenIndex::new(Arc::new(index), Arc::new(|_: &OrgId| false)));
    };
    let address = cluster.address(listener);
    let holders = base.stores.index_holders();
    let node = Arc::new(NodeIndex::new(embedded(folder()?)?, holders, Arc::new(membership.clone()), &address));
    let mut tasks = JoinSet::new();
    let (maintained, interval) = (Arc::clone(&node), MISPLACED_INTERVAL.min(settings.index.sweep_interval));
    tasks.spawn(async move { maintain(&maintained, interval).await });
    let placement = membership.clone();
    let is_responsible: IsResponsible =
        Arc::new(move |org: &OrgId| placement.node_of(org).is_some_and(|placed| placed == address));
    let calls = Arc::new(IndexServer::new(Arc::clone(&node)));
    let index = PlacedIndex::new(Arc::new(membership), nodes, environment, Some(node), request_bytes);
    let calls: Option<Arc<dyn IndexCalls>> = Some(calls);
    Ok(OpenIndex { calls, tasks, ..OpenIndex::new(Arc::new(index), is_responsible) })
}
