//! The connection of a process to its cluster: the membership view, and the nodes in other processes.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use folio_cluster::{Membership, Options, Peers, Router};
use folio_history::peer::SharedPeer;
use folio_node::{ClusterParts, Node};
use folio_storage::{SharedStores, ThreadStore, TurnEventStore};
use folio_types::Environment;
use tokio::task::JoinSet;

use super::stores::with_setting;

pub(crate) struct Cluster {
    pub(super) options: Options,
    environment: Arc<dyn Environment>,
    pub(super) membership: Membership,
    pub(super) peers: Peers,
    events: Arc<dyn TurnEventStore>,
    /// The task that reloads the certificates. Dropping it stops the task.
    _reload: JoinSet<()>,
}

impl Cluster {
    /// Starts the membership view. Only a node sends heartbeats.
    pub(crate) fn start(options: Options, shared: &SharedStores, environment: Arc<dyn Environment>) -> Result<Self> {
        let peers = Peers::new(&options, Arc::clone(&environment)).map_err(with_setting("cluster"))?;
        let (mut reload, reloaded) = (JoinSet::new(), peers.clone());
        reload.spawn(async move { reloaded.reload_certificates().await });
        let membership = Membership::start(Arc::clone(&shared.nodes), options.membership());
        let events = Arc::clone(&shared.events);
        Ok(Self { options, environment, membership, peers, events, _reload: reload })
    }

    /// Returns the parts of a node that listens on this address.
    pub(crate) fn parts(&self, listen_address: SocketAddr) -> ClusterParts {
        let (membership, peers) = (self.membership.clone(), self.peers.clone());
        ClusterParts { membership, address: self.address(listen_address), peers }
    }

    /// Returns the conversations of all nodes, for a gateway. The node of this process, `local_node`, is called
    /// directly.
    pub(crate) fn peer(&self, threads: &Arc<dyn ThreadStore>, local_node: Option<(SocketAddr, &Node)>) -> SharedPeer {
        let (live, peers) = (self.membership.live(), self.peers.clone());
        let router = Router::new(live, peers, &self.options, Arc::clone(&self.environment));
        let router = router.with_shared(Arc::clone(threads), Arc::clone(&self.events));
        match local_node {
            None => Arc::new(router),
            Some((listen_address, node)) => {
                Arc::new(router.with_node(&self.address(listen_address), Arc::new(node.clone())))
            }
        }
    }

    /// Returns the address at which other processes reach a node that listens on `listen_address`.
    pub(super) fn address(&self, listen_address: SocketAddr) -> String {
        match self.options.advertise.as_str() {
            "" => listen_address.to_string(),
            advertised => advertised.to_owned(),
        }
    }
}
