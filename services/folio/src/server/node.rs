//! The role of a node: it hosts conversations, reads documents, and cleans up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use folio_cluster::{NodeServer, Shutdown};
use folio_documents::{ActiveUploads, Cleaner, CleanupHandle, IngestHandle, Ingestor, Mine, TextReader, always_mine};
use folio_node::{Node, NodeParts, SharedTurnStores};
use folio_quotas::Slots;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic_health::server::HealthReporter;

use super::Base;
use super::cluster::Cluster;
use crate::settings::Settings;

/// How long a question of a peer may take once all is handed back.
const LAST_ANSWERS: Duration = Duration::from_millis(500);

/// A running node.
pub(crate) struct RunningNode {
    node: Node,
    ingestor: Ingestor,
    cleaner: Cleaner,
    listener: Option<Listener>,
}

/// Its listener in a cluster.
struct Listener {
    address: SocketAddr,
    shutdown: Shutdown,
    task: JoinHandle<folio_types::Result<()>>,
}

/// What of this process a node looks after, too.
pub(crate) struct Uploads {
    /// Told of new documents.
    pub(crate) ingest: IngestHandle,
    /// Active uploads.
    pub(crate) active_uploads: ActiveUploads,
}

impl RunningNode {
    /// Starts one; with a listener where it is one of a cluster. Gives who is told of deleted documents.
    pub(crate) async fn start(
        settings: &Settings,
        base: &Base,
        uploads: Uploads,
        clustered: Option<(&Cluster, TcpListener)>,
        health: HealthReporter,
    ) -> Result<(Self, CleanupHandle)> {
        let Uploads { ingest, active_uploads } = uploads;
        let reader = TextReader::new(settings.documents.clone());
        let ingestor = Ingestor::start(base.stores.clone(), ingest, Arc::clone(&base.environment), reader);
        let mine: Mine = match clustered.as_ref().map(|(cluster, _)| cluster.membership().clone()) {
            None => always_mine(),
            Some(membership) => Arc::new(move || membership.is_first()),
        };
        let (stores, turns) = (base.stores.clone(), Arc::clone(&base.shared.turns));
        let (environment, cleanup) = (Arc::clone(&base.environment), settings.cleanup.clone());
        let (cleaner, clean_up) = Cleaner::start(stores, turns, environment, active_uploads, cleanup, mine);

        let address = clustered.as_ref().map(|(_, listener)| listener.local_addr()).transpose()?;
        let cluster = match (&clustered, address) {
            (Some((cluster, _)), Some(address)) => Some(cluster.parts(address)),
            _ => None,
        };
        // Events are for other nodes; what waits is for whoever asks.
        let events = cluster.is_some().then(|| Arc::clone(&base.shared.events));
        let parts = NodeParts {
            shared_turns: SharedTurnStores { turns: Arc::clone(&base.shared.turns), events },
            stores: base.stores.clone(),
            models: base.models.clone(),
            meter: base.meter.clone(),
            turn_slots: Slots::of_turns(base.quotas.clone(), Arc::clone(&base.shared.slots)),
            environment: Arc::clone(&base.environment),
            cluster,
        };
        let options = folio_node::Options { conversations: settings.conversation.clone() };
        let node = Node::start(options, parts).await?;
        let listener = match clustered {
            None => None,
            Some((cluster, listener)) => Some(Listener::start(listener, cluster, &node, base, health)?),
        };
        Ok((Self { node, ingestor, cleaner, listener }, clean_up))
    }

    /// Its conversations.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Where gateways and other nodes reach it.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|listener| listener.address)
    }

    /// Waits until its listener fails by itself; for ever where there is none.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match &mut self.listener {
            Some(listener) => super::ended(&mut listener.task, "the listener for the cluster").await,
            None => std::future::pending().await,
        }
    }

    /// Lets what runs end, at most until the limit, and hands back what rests. Others ask here all the while what is held.
    pub(crate) async fn drain(self, limit: Duration) {
        let Self { node, ingestor, cleaner, listener } = self;
        tokio::join!(node.drain(limit), ingestor.drain(limit));
        cleaner.stop().await;
        if let Some(Listener { shutdown, mut task, .. }) = listener {
            shutdown.begin.cancel();
            if tokio::time::timeout(LAST_ANSWERS, &mut task).await.is_err() {
                shutdown.cut.cancel();
                let _ = task.await;
            }
        }
    }
}

impl Listener {
    fn start(
        listener: TcpListener,
        cluster: &Cluster,
        node: &Node,
        base: &Base,
        health: HealthReporter,
    ) -> Result<Self> {
        let (address, shutdown) = (listener.local_addr()?, Shutdown::default());
        let (node, options, told) = (Arc::new(node.clone()), cluster.options().clone(), shutdown.clone());
        let environment = Arc::clone(&base.environment);
        let serving = async move { NodeServer::serve(listener, node, &options, environment, health, told).await };
        let task = tokio::spawn(serving);
        Ok(Self { address, shutdown, task })
    }
}
