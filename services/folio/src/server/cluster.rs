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

use super::stores::at;

pub(crate) struct Cluster {
    options: Options,
    environment: Arc<dyn Environment>,
    membership: Membership,
    peers: Peers,
    events: Arc<dyn TurnEventStore>,
    /// Reloads the certificates. Dropping it stops the task.
    _following: JoinSet<()>,
}

impl Cluster {
    /// Starts the membership view. Only a node sends heartbeats.
    pub(crate) fn start(options: Options, shared: &SharedStores, environment: Arc<dyn Environment>) -> Result<Self> {
        let peers = Peers::new(&options, Arc::clone(&environment)).map_err(at("cluster"))?;
        let (mut following, followed) = (JoinSet::new(), peers.clone());
        following.spawn(async move { followed.follow().await });
        let membership = Membership::start(Arc::clone(&shared.nodes), options.membership());
        let events = Arc::clone(&shared.events);
        Ok(Self { options, environment, membership, peers, events, _following: following })
    }

    /// Returns the parts of a node that listens on this address.
    pub(crate) fn parts(&self, listens: SocketAddr) -> ClusterParts {
        let (membership, peers) = (self.membership.clone(), self.peers.clone());
        ClusterParts { membership, address: self.address(listens), peers }
    }

    /// Returns the conversations of all nodes, for a gateway. `here`: the node of this process, which is called
    /// directly.
    pub(crate) fn peer(&self, threads: &Arc<dyn ThreadStore>, here: Option<(SocketAddr, &Node)>) -> SharedPeer {
        let (live, peers) = (self.membership.live(), self.peers.clone());
        let router = Router::new(live, peers, &self.options, Arc::clone(&self.environment));
        let router = router.with_shared(Arc::clone(threads), Arc::clone(&self.events));
        match here {
            None => Arc::new(router),
            Some((listens, node)) => Arc::new(router.with_node(&self.address(listens), Arc::new(node.clone()))),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Returns the address at which other processes reach a node that listens on `listens`.
    fn address(&self, listens: SocketAddr) -> String {
        match self.options.advertise.as_str() {
            "" => listens.to_string(),
            advertised => advertised.to_owned(),
        }
    }
}
