//! The index of passages of this process: on a Qdrant server, in a folder of the process, or on the nodes of the cluster.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use folio_cluster::IndexCalls;
use folio_index::{EmbeddedIndex, EmbeddedOptions, PassageIndex};
use folio_index_placed::{IndexServer, NodeIndex, PlacedIndex, maintain};
use folio_index_qdrant::QdrantIndex;
use folio_storage::Stores;
use folio_types::Environment;
use tokio::task::JoinSet;

use super::cluster::Cluster;
use super::stores::with_setting;
use crate::settings::IndexOptions;

/// Interval between two removals of indexes that moved to other nodes.
const MISPLACED_INTERVAL: Duration = Duration::from_secs(60);

/// The folder of an embedded index.
pub(crate) struct IndexFolder {
    pub(crate) path: PathBuf,
    pub(crate) options: EmbeddedOptions,
}

pub(crate) struct OpenedIndex {
    /// Finds the passages of all organizations.
    pub(crate) index: Arc<dyn PassageIndex>,
    /// The calls of other processes, which the node serves (`Node::serve_index`). None: the process has no index that
    /// others call.
    pub(crate) calls: Option<Arc<dyn IndexCalls>>,
    /// The task that removes indexes that moved to other nodes. Dropping it stops the task.
    _maintenance: JoinSet<()>,
}

/// Opens the index. `cluster`: the cluster, if the process is a part of one, and the address at which its node listens, if
/// it is a node. `folder`: the folder of its index, which a Qdrant server replaces.
pub(crate) async fn open(
    options: &IndexOptions,
    folder: IndexFolder,
    stores: &Stores,
    environment: Arc<dyn Environment>,
    cluster: Option<(&Cluster, Option<SocketAddr>)>,
) -> Result<OpenedIndex> {
    let mut maintenance = JoinSet::new();
    if let Some(options) = options.qdrant() {
        let index = QdrantIndex::new(&options, environment).await.map_err(with_setting("index"))?;
        return Ok(OpenedIndex { index: Arc::new(index), calls: None, _maintenance: maintenance });
    }
    let local = |folder: IndexFolder| EmbeddedIndex::open(folder.path, folder.options).map_err(with_setting("index"));
    let Some((cluster, listener)) = cluster else {
        return Ok(OpenedIndex { index: Arc::new(local(folder)?), calls: None, _maintenance: maintenance });
    };
    let placement = Arc::new(cluster.membership.clone());
    let own = match listener {
        None => None,
        Some(listener) => {
            let local = Arc::new(local(folder)?);
            let address = cluster.address(listener);
            let node = Arc::new(NodeIndex::new(local, stores.index_holders(), placement.clone(), &address));
            let maintained = Arc::clone(&node);
            maintenance.spawn(async move { maintain(&maintained, MISPLACED_INTERVAL).await });
            Some(node)
        }
    };
    let calls = own.clone().map(|node| Arc::new(IndexServer::new(node)) as Arc<dyn IndexCalls>);
    let nodes = Arc::new(cluster.peers.clone());
    let index = PlacedIndex::new(placement, nodes, environment, own, cluster.options.request_bytes);
    Ok(OpenedIndex { index: Arc::new(index), calls, _maintenance: maintenance })
}
