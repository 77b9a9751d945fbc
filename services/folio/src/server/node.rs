//! The node role: hosts conversations and jobs, reads documents, and cleans up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use folio_cluster::NodeServer;
use folio_documents::{
    Cleaner, CleanupHandle, IngestHandle, Ingestor, IsSweeper, PageRenderer, TextReader, Uploader, always_sweeper,
};
use folio_jobs::JobHints;
use folio_knowledge::Maintenance;
use folio_node::{DocumentImages, JobParts, Node, NodeParts, SharedTurnStores};
use folio_providers::Providers;
use folio_quotas::Slots;
use folio_webhooks::DeliveryJobs;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic_health::server::HealthReporter;

use super::SharedComponents;
use super::cluster::Cluster;
use super::knowledge::{self, OpenKnowledge};
use super::server_task::ServerTask;
use crate::settings::Settings;

/// Time for the last RPCs of peers after all conversations are released.
const LAST_RPC_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) struct RunningNode {
    node: Node,
    ingestor: Ingestor,
    cleaner: Cleaner,
    maintenance: Maintenance,
    knowledge: OpenKnowledge,
    listener: Option<Listener>,
}

struct Listener {
    address: SocketAddr,
    task: ServerTask,
}

impl RunningNode {
    /// Starts a node, with a listener if it is part of a cluster. Returns the handle that requests clean-up sweeps.
    pub(crate) async fn start(
        settings: &Settings,
        base: &SharedComponents,
        (ingest, uploader, hints, clock): (IngestHandle, Uploader, JobHints, watch::Receiver<bool>),
        clustered: Option<(&Cluster, TcpListener)>,
        health: HealthReporter,
    ) -> Result<(Self, CleanupHandle)> {
        let reader = TextReader::new(settings.documents.clone());
        let ingestor = Ingestor::start(base.stores.clone(), ingest, Arc::clone(&base.environment), reader, uploader);
        let is_sweeper: IsSweeper = match clustered.as_ref().map(|(cluster, _)| cluster.membership.clone()) {
            None => always_sweeper(),
            Some(membership) => Arc::new(move || membership.is_first()),
        };
        let (stores, turns) = (base.stores.clone(), Arc::clone(&base.shared.turns));
        let (environment, cleanup) = (Arc::clone(&base.environment), settings.cleanup.clone());
        let (cleaner, clean_up) = Cleaner::start(stores, turns, environment, cleanup, is_sweeper);

        let address = clustered.as_ref().map(|(_, listener)| listener.local_addr()).transpose()?;
        let cluster = match (&clustered, address) {
            (Some((cluster, _)), Some(address)) => Some(cluster.parts(address)),
            _ => None,
        };
        let (stores, environment) = (base.stores.clone(), Arc::clone(&base.environment));
        let deliveries = DeliveryJobs::new(stores, Providers::clone(&base.models), environment, base.webhooks.clone())?;
        // Other nodes read published events. A single process does not need them.
        let events = cluster.is_some().then(|| Arc::clone(&base.shared.events));
        let pages = PageRenderer::new(base.stores.clone(), Arc::clone(&base.environment), settings.documents.clone());
        let images = Arc::new(DocumentImages(pages.clone()));
        let member = clustered.as_ref().map(|(cluster, _)| (*cluster, address));
        let mut knowledge = knowledge::open(settings, base, &hints, member, images).await?;
        let parts = NodeParts {
            knowledge: Some(knowledge.knowledge.clone()),
            shared_turns: SharedTurnStores { turns: Arc::clone(&base.shared.turns), events },
            pages,
            mcp: Arc::new(base.mcp.clone()),
            stores: base.stores.clone(),
            models: base.models.clone(),
            meter: base.meter.clone(),
            turn_slots: Slots::of_turns(base.quotas.clone(), Arc::clone(&base.shared.slots)),
            environment: Arc::clone(&base.environment),
            extraction: settings.extraction.clone(),
            auto_create: settings.auto_create.clone(),
            jobs: JobParts {
                slots: Arc::clone(&base.shared.slots),
                hints,
                limits: settings.jobs,
                kinds: vec![Arc::new(deliveries)],
                conversations: clustered.as_ref().map(|(cluster, _)| cluster.peer(&base.stores.threads, None)),
            },
            cluster,
            clock,
        };
        let options = settings.conversation.clone();
        let node = Node::start(options, parts).await?;
        if let Some(calls) = &knowledge.index.calls {
            node.serve_index(Arc::clone(calls));
        }
        let (interval, is_responsible) = (settings.index.sweep_interval, Arc::clone(&knowledge.index.is_responsible));
        let maintenance = Maintenance::start(knowledge.knowledge.clone(), interval, is_responsible);
        if let Some((cluster, _)) = &clustered {
            knowledge.index.notify_of_changes(&cluster.membership, maintenance.changed());
        }
        let listener = match clustered {
            None => None,
            Some((cluster, listener)) => Some(Listener::start(listener, cluster, &node, base, health)?),
        };
        Ok((Self { node, ingestor, cleaner, maintenance, knowledge, listener }, clean_up))
    }

    /// The passages of documents and the index of this process.
    pub(crate) fn open_knowledge(&self) -> &OpenKnowledge {
        &self.knowledge
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// The address for gateways and other nodes. None: the node has no listener.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.listener.as_ref().map(|listener| listener.address)
    }

    /// Waits until the listener fails. Pending forever without a listener.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match &mut self.listener {
            Some(listener) => listener.task.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Waits for running work until the limit, and releases the conversations and jobs. The listener serves peers until the end,
    /// because they query the activity of threads.
    pub(crate) async fn drain(self, limit: Duration) {
        // The folder of the index is removed at the end if it is temporary.
        let Self { node, ingestor, cleaner, maintenance, knowledge: _knowledge, listener } = self;
        tokio::join!(node.drain(limit), ingestor.drain(limit), cleaner.stop(limit), maintenance.stop(limit));
        if let Some(listener) = listener {
            listener.task.drain(LAST_RPC_TIMEOUT).await;
        }
    }
}

impl Listener {
    fn start(
        listener: TcpListener,
        cluster: &Cluster,
        node: &Node,
        base: &SharedComponents,
        health: HealthReporter,
    ) -> Result<Self> {
        let address = listener.local_addr()?;
        let (node, options) = (Arc::new(node.clone()), cluster.options.clone());
        let environment = Arc::clone(&base.environment);
        let task = ServerTask::start("the listener for the cluster", |shutdown| async move {
            NodeServer::serve(listener, node, &options, environment, health, shutdown).await
        });
        Ok(Self { address, task })
    }
}
