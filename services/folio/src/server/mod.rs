//! The whole of Folio in one process: stores, models, documents, conversations and the public API.

mod first_start;
mod health;
mod models;
mod stores;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use folio_documents::{Cleaner, Ingestor, TextReader, Uploader};
use folio_gateway::{Gateway, Shutdown};
use folio_llm::OpenAiModels;
use folio_metering::UsageRecorder;
use folio_node::{Node, NodeParts};
use folio_storage::embedded::EmbeddedStore;
use folio_types::token::Token;
use folio_types::{Environment, System};
use llm_sim::LlmSim;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::settings::Settings;
use health::{HealthPort, Observed};

/// A running server.
pub(crate) struct Server {
    address: SocketAddr,
    token_file: PathBuf,
    first_token: Option<Token>,
    endpoint: String,
    parts: Parts,
}

/// What is stopped, in this order.
struct Parts {
    shutdown: Shutdown,
    health: Option<HealthPort>,
    gateway: JoinHandle<folio_types::Result<()>>,
    node: Node,
    ingestor: Ingestor,
    cleaner: Cleaner,
    store: EmbeddedStore,
    offline: Option<LlmSim>,
}

/// Starts everything. The listener is bound first, so that a port that is taken costs nothing.
pub(crate) async fn start(settings: Settings, model: Option<&str>) -> Result<Server> {
    let listener = listen(&settings.server.listen).await?;
    let address = listener.local_addr()?;
    settings.gateway.allows(address)?;
    let health = match settings.server.health_listen.as_str() {
        "" => None,
        place => Some(listen(place).await?),
    };
    let environment: Arc<dyn Environment> = Arc::new(System);
    let started_at = environment.now();

    let (store, stores) = stores::open(&settings.storage).await?;
    let token_file = token_file(&settings.storage.data);
    let first_token = first_start::ensure(&stores, environment.as_ref(), &token_file).await?;

    let endpoint = models::choose(&settings.models, model).await?;
    let told = endpoint.told();
    let models = Arc::new(OpenAiModels::new(endpoint.options, Arc::clone(&environment))?);
    let meter = Arc::new(UsageRecorder::new(Arc::clone(&stores.usage), Arc::clone(&environment)));

    let mut documents = settings.documents;
    documents.scratch.get_or_insert_with(|| settings.storage.data.join("scratch"));
    let reader = TextReader::new(documents.clone());
    let (ingestor, ingest) = Ingestor::start(stores.clone(), Arc::clone(&environment), reader);
    let uploader = Uploader::new(stores.clone(), Arc::clone(&environment), Some(ingest), &documents);
    let under_way = uploader.under_way().clone();
    let (cleaner, clean_up) = Cleaner::start(stores.clone(), Arc::clone(&environment), under_way, settings.cleanup);
    let parts = NodeParts {
        stores: stores.clone(),
        models: models.clone(),
        meter: meter.clone(),
        environment: Arc::clone(&environment),
        cluster: None,
    };
    let node = Node::start(folio_node::Options { conversations: settings.conversation }, parts).await?;

    let health = match health {
        None => None,
        Some(listener) => {
            let stores = Arc::clone(&stores.health);
            let observed =
                Observed { stores, interval: settings.gateway.health_interval, node: node.clone(), started_at };
            Some(HealthPort::start(listener, observed).await?)
        }
    };
    let shutdown = Shutdown::default();
    let gateway = Gateway {
        options: settings.gateway,
        stores,
        models,
        meter,
        environment,
        peer: Arc::new(node.clone()),
        uploader,
        clean_up,
    };
    let gateway = tokio::spawn(folio_gateway::serve(listener, gateway, shutdown.clone()));
    let parts = Parts { shutdown, health, gateway, node, ingestor, cleaner, store, offline: endpoint.offline };
    Ok(Server { address, token_file, first_token, endpoint: told, parts })
}

async fn listen(place: &str) -> Result<TcpListener> {
    TcpListener::bind(place).await.with_context(|| format!("cannot listen on {place}"))
}

/// Where the first start leaves the admin's token.
pub(crate) fn token_file(data: &Path) -> PathBuf {
    data.join("admin.token")
}

impl Server {
    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where health and figures are told.
    pub(crate) fn health_address(&self) -> Option<SocketAddr> {
        self.parts.health.as_ref().map(HealthPort::address)
    }

    /// The admin's token, the one time that it is made.
    pub(crate) fn first_token(&self) -> Option<&Token> {
        self.first_token.as_ref()
    }

    /// The file with the admin's token.
    pub(crate) fn token_file(&self) -> &Path {
        &self.token_file
    }

    /// Which model endpoints it talks to, and by what they were chosen: documents go there.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Waits until the listener fails by itself, which it does not in order.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.parts.gateway).await {
            Ok(Ok(())) => anyhow::anyhow!("the listener ended"),
            Ok(Err(error)) => anyhow::Error::new(error).context("the listener failed"),
            Err(error) => anyhow::Error::new(error).context("the listener failed"),
        }
    }

    /// Stops in order: no new connection from now on; running turns and calls, and documents that are being read, may end
    /// until the limit; then what is left of them is cut; what is durable is synced last.
    pub(crate) async fn stop(self, limit: Duration) {
        let mut parts = self.parts;
        parts.shutdown.begin.cancel();
        if let Some(health) = &mut parts.health {
            health.drain().await;
        }
        let calls = tokio::time::timeout(limit, &mut parts.gateway);
        let (ended, (), ()) = tokio::join!(calls, parts.node.drain(limit), parts.ingestor.drain(limit));
        let ended = match ended {
            Ok(ended) => ended,
            Err(_) => {
                parts.shutdown.cut.cancel();
                parts.gateway.await
            }
        };
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the listener did not end in order");
        }
        parts.cleaner.stop().await;
        drop(parts.node);
        parts.store.close().await;
        if let Some(health) = parts.health {
            health.stop().await;
        }
        if let Some(offline) = parts.offline {
            offline.shutdown().await;
        }
    }
}
