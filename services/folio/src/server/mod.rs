//! The whole of Folio in one process: stores, models, documents, conversations and the public API.

mod first_start;
mod models;

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use folio_documents::{Cleaner, Ingestor, TextReader, Uploader};
use folio_gateway::Gateway;
use folio_llm::OpenAiModels;
use folio_metering::UsageRecorder;
use folio_node::{Node, NodeParts};
use folio_storage::embedded::{self, EmbeddedStore};
use folio_types::token::Token;
use folio_types::{Environment, System};
use llm_sim::LlmSim;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::settings::Settings;

/// A running server.
pub(crate) struct Server {
    address: SocketAddr,
    token_file: PathBuf,
    first_token: Option<Token>,
    endpoints: Vec<String>,
    parts: Parts,
}

/// What is stopped, in this order.
struct Parts {
    stop: CancellationToken,
    gateway: JoinHandle<folio_types::Result<()>>,
    node: Node,
    ingestor: Ingestor,
    cleaner: Cleaner,
    store: EmbeddedStore,
    offline: Option<LlmSim>,
}

/// Starts everything. The listener is bound first, so that a port that is taken costs nothing.
pub(crate) async fn start(settings: Settings, model: Option<&str>) -> Result<Server> {
    let listen = &settings.server.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let address = listener.local_addr()?;
    let environment: Arc<dyn Environment> = Arc::new(System);

    let folder = settings.storage.data.clone();
    private_folder(&folder).with_context(|| format!("the data folder {} cannot be made", folder.display()))?;
    let store = tokio::task::spawn_blocking(move || EmbeddedStore::open(embedded::Options::at(folder))).await??;
    let stores = store.stores();
    let token_file = token_file(&settings.storage.data);
    let first_token = first_start::ensure(&stores, environment.as_ref(), &token_file).await?;

    let endpoint = models::choose(&settings.models, model).await?;
    let endpoints = endpoint.options.providers.values().map(|provider| provider.base_url.clone()).collect();
    let models = Arc::new(OpenAiModels::new(endpoint.options, Arc::clone(&environment))?);
    let meter = Arc::new(UsageRecorder::new(Arc::clone(&stores.usage), Arc::clone(&environment)));

    let max_bytes = settings.documents.max_bytes;
    let mut documents = settings.documents;
    documents.scratch.get_or_insert_with(|| settings.storage.data.join("scratch"));
    let reader = TextReader::new(documents);
    let (ingestor, ingest) = Ingestor::start(stores.clone(), Arc::clone(&environment), reader);
    let (cleaner, clean_up) = Cleaner::start(stores.clone(), Arc::clone(&environment), settings.cleanup);
    let uploader = Uploader::new(stores.clone(), Arc::clone(&environment), Some(ingest), max_bytes);
    let parts = NodeParts {
        stores: stores.clone(),
        models: models.clone(),
        meter: meter.clone(),
        environment: Arc::clone(&environment),
    };
    let node = Node::start(folio_node::Options { conversations: settings.conversation }, parts).await?;

    let stop = CancellationToken::new();
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
    let gateway = tokio::spawn(folio_gateway::serve(listener, gateway, stop.clone()));
    let parts = Parts { stop, gateway, node, ingestor, cleaner, store, offline: endpoint.offline };
    Ok(Server { address, token_file, first_token, endpoints, parts })
}

/// Makes the data folder for its owner alone, unless it is there.
fn private_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
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

    /// The admin's token, the one time that it is made.
    pub(crate) fn first_token(&self) -> Option<&Token> {
        self.first_token.as_ref()
    }

    /// The file with the admin's token.
    pub(crate) fn token_file(&self) -> &Path {
        &self.token_file
    }

    /// The base URLs of the model endpoints.
    pub(crate) fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// Whether it talks to the built-in offline model.
    pub(crate) fn is_offline(&self) -> bool {
        self.parts.offline.is_some()
    }

    /// Waits until the listener fails by itself, which it does not in order.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.parts.gateway).await {
            Ok(Ok(())) => anyhow::anyhow!("the listener ended"),
            Ok(Err(error)) => anyhow::Error::new(error).context("the listener failed"),
            Err(error) => anyhow::Error::new(error).context("the listener failed"),
        }
    }

    /// Stops in order: running turns may end until the limit, then streams, then what works in the background; what is
    /// durable is synced last.
    pub(crate) async fn stop(self, limit: Duration) {
        let parts = self.parts;
        parts.node.drain(limit).await;
        parts.stop.cancel();
        if let Ok(Err(error)) = parts.gateway.await {
            tracing::warn!(%error, "the listener did not end in order");
        }
        parts.ingestor.drain(limit).await;
        parts.cleaner.stop().await;
        drop(parts.node);
        parts.store.close().await;
        if let Some(offline) = parts.offline {
            offline.shutdown().await;
        }
    }
}
