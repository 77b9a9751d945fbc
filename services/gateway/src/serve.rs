//! The server: everything on one port, and how it ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use folio_cluster::SharedPeer;
use folio_documents::{CleanupHandle, Uploader};
use folio_llm::Models;
use folio_metering::SharedMeter;
use folio_storage::Stores;
use folio_types::{Environment, Error, Result};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::access::{Authenticator, RPCS};
use crate::layers::layers;
use crate::options::Options;
use crate::services::routes;

/// How long a cut may take to reach every call.
const CUT_TAKES: Duration = Duration::from_secs(2);
/// How long what outlives its calls may take: the settlement of a model call is one write.
const TIDY_WITHIN: Duration = Duration::from_secs(5);

/// What the gateway is built on.
#[derive(Clone)]
pub struct Gateway {
    /// The stores.
    pub stores: Stores,
    /// The conversations.
    pub peer: SharedPeer,
    /// The models, for lists, prompts and extractions.
    pub models: Arc<dyn Models>,
    /// The meter of extractions.
    pub meter: SharedMeter,
    /// Time and randomness.
    pub environment: Arc<dyn Environment>,
    /// Takes files in.
    pub uploader: Uploader,
    /// Told of deleted documents.
    pub clean_up: CleanupHandle,
    /// Settings.
    pub options: Options,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("options", &self.options).finish_non_exhaustive()
    }
}

/// How a server is told to end. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// From here on no new connection is taken, and health says so; calls under way go on.
    pub begin: CancellationToken,
    /// From here on what is left is answered `DRAINING`.
    pub cut: CancellationToken,
}

/// Serves the public API, health and reflection on this listener until it is told to end: see [`Shutdown`]. What a call
/// left behind (the settlement of its model call) is waited for.
///
/// Whoever also drains a node does that between the two: its running turns close their streams.
pub async fn serve(listener: TcpListener, gateway: Gateway, shutdown: Shutdown) -> Result<()> {
    let tasks = TaskTracker::new();
    let served = serve_calls(listener, gateway, shutdown, tasks.clone()).await;
    tasks.close();
    if tokio::time::timeout(TIDY_WITHIN, tasks.wait()).await.is_err() {
        tracing::warn!(tasks = tasks.len(), "tasks of calls did not end in time");
    }
    served
}

async fn serve_calls(listener: TcpListener, gateway: Gateway, shutdown: Shutdown, tasks: TaskTracker) -> Result<()> {
    let address = local_address(&listener)?;
    let options = gateway.options.clone();
    let authenticator =
        Authenticator::new(Arc::clone(&gateway.stores.access), Arc::clone(&gateway.environment), options.token_cache);
    let Shutdown { begin, cut } = shutdown;
    let (health, health_service) = tonic_health::server::health_reporter();
    let mut routes = routes(Arc::new(gateway), cut.clone(), tasks);
    routes.add_service(health_service).add_service(reflection()?);
    for service in service_names() {
        health.set_service_status(service, tonic_health::ServingStatus::Serving).await;
    }
    let server = Server::builder()
        .http2_keepalive_interval(Some(options.keepalive_interval))
        .http2_keepalive_timeout(Some(options.keepalive_timeout))
        .max_concurrent_streams(options.streams_per_connection)
        .layer(layers(&options, authenticator, cut.clone()))
        .add_routes(routes.routes())
        .serve_with_incoming_shutdown(
            TcpIncoming::from(listener).with_nodelay(Some(true)),
            begin.clone().cancelled_owned(),
        );
    tokio::pin!(server);
    tracing::info!(%address, "listening");
    tokio::select! {
        ended = &mut server => return ended.map_err(failed),
        () = begin.cancelled() => {}
    }
    for service in service_names() {
        health.set_service_status(service, tonic_health::ServingStatus::NotServing).await;
    }
    tokio::select! {
        ended = &mut server => return ended.map_err(failed),
        () = cut.cancelled() => tracing::info!("the drain is over; what is left is cut"),
    }
    match tokio::time::timeout(CUT_TAKES, &mut server).await {
        Ok(ended) => ended.map_err(failed),
        Err(_) => Ok(()),
    }
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr> {
    listener.local_addr().map_err(|error| Error::internal(format!("the listener has no address: {error}")))
}

fn failed(error: tonic::transport::Error) -> Error {
    Error::internal(format!("the server failed: {error:?}"))
}

/// The whole server, under the empty name, and each service of the API.
fn service_names() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&str> = RPCS.iter().filter_map(|rpc| rpc.path.split('/').nth(1)).collect();
    names.dedup();
    std::iter::once("").chain(names)
}

fn reflection()
-> Result<tonic_reflection::server::v1::ServerReflectionServer<impl tonic_reflection::server::v1::ServerReflection>> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(folio_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| Error::internal(format!("reflection cannot describe the API: {error}")))
}
