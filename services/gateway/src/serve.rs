//! The server: every face of the public API, health and reflection on one port, and its shutdown.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use folio_cluster::Shutdown;
use folio_operations::Components;
use folio_storage::RateStore;
use folio_types::{Error, Result};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::transport::Server;
use tonic_health::ServingStatus;

use crate::authenticator::Authenticator;
use crate::connections::connections;
use crate::counters::Counters;
use crate::faces::{DispatchLayer, FacesLayer, cors};
use crate::health;
use crate::jwt::Issuers;
use crate::layers::{CallObservers, layers};
use crate::options::Options;
use crate::rates::Rates;
use crate::response_body::UnreadWatch;
use crate::services::{Api, routes};
use crate::sessions::Sessions;
use crate::tls::Certificates;

/// Maximum time at shutdown for tasks that outlive their calls: the settlement of a model call is one write.
const TASKS_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum size of a request message of health and reflection.
const PUBLIC_MESSAGE_BYTES: usize = 4 * 1024;
/// Maximum number of received bytes of a call that the gateway has not read yet (HTTP/2 flow control).
const STREAM_WINDOW: u32 = 256 * 1024;
/// The same for all calls of a connection.
const CONNECTION_WINDOW: u32 = 512 * 1024;

#[derive(Clone)]
pub struct Gateway {
    /// The tasks of the components end before [`serve`] returns.
    pub components: Components,
    /// Shared by all gateways.
    pub rates: Arc<dyn RateStore>,
    pub counters: Counters,
    pub options: Options,
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Serves the public API in every face, health and reflection on this listener until the shutdown (see [`Shutdown`]). Then waits for
/// tasks that outlive their calls (the settlement of a model call).
///
/// A process that also drains a node drains it between the two phases of the shutdown: the running turns of the node
/// close their streams.
pub async fn serve(listener: TcpListener, gateway: Gateway, shutdown: Shutdown) -> Result<()> {
    let tasks = gateway.components.tasks.clone();
    let served = Box::pin(serve_calls(listener, gateway, shutdown)).await;
    tasks.close();
    if tokio::time::timeout(TASKS_TIMEOUT, tasks.wait()).await.is_err() {
        tracing::warn!(tasks = tasks.len(), "tasks of calls did not end within the time-out");
    }
    served
}

async fn serve_calls(listener: TcpListener, gateway: Gateway, shutdown: Shutdown) -> Result<()> {
    let address = local_address(&listener)?;
    let (options, counters) = (gateway.options.clone(), gateway.counters.clone());
    options.allows(address)?;
    let certificates = Certificates::load(&options.tls)?;
    let acceptor = certificates.as_ref().map(Certificates::acceptor).transpose()?;
    // Dropping the set ends these tasks with this function.
    let mut watches = JoinSet::new();
    let issuers = Issuers::start(&options.jwt, &mut watches).await?;
    let components = &gateway.components;
    let resources = &components.stores.resources;
    let stores = (components.stores.access(), components.stores.accounts());
    let environment = Arc::clone(&components.environment);
    let rates = Rates::new(Arc::clone(&gateway.rates));
    let authenticator = Authenticator::new(stores, resources, environment, issuers, &options)
        .with_accounts(components.accounts.is_some())
        .with_quotas(components.quotas, rates)
        .with_counters(counters.clone());
    let (reporter, health_service) = tonic_health::server::health_reporter();
    let stores = Arc::clone(&components.stores.health);
    let api = Api::new(gateway, &shutdown);
    let mut routes = routes(&api);
    routes
        .add_service(health_service.max_decoding_message_size(PUBLIC_MESSAGE_BYTES))
        .add_service(reflection()?.max_decoding_message_size(PUBLIC_MESSAGE_BYTES));
    health::report(&reporter, ServingStatus::Serving).await;
    let watch = Arc::new(UnreadWatch::default());
    watches.spawn(Arc::clone(&watch).run(options.unread));
    let sessions = Arc::new(Sessions::default());
    watches.spawn(Arc::clone(&sessions).run(authenticator.clone()));
    watches.spawn(authenticator.clone().write_uses());
    let health_watch = watches.spawn(health::watch(reporter.clone(), stores, options.health_interval));
    if let Some(certificates) = certificates {
        watches.spawn(certificates.watch_files(options.tls.reload_interval));
    }
    let server = Server::builder()
        .http2_keepalive_interval(Some(options.keepalive_interval))
        .http2_keepalive_timeout(Some(options.keepalive_timeout))
        .max_concurrent_streams(options.streams_per_connection)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .accept_http1(true)
        .layer(cors(&options))
        .layer(FacesLayer::new(&options))
        .layer(layers(
            &options,
            authenticator,
            shutdown.abort.clone(),
            CallObservers { watch, sessions },
            counters.clone(),
        ))
        .layer(DispatchLayer::new(api))
        .add_routes(routes.routes())
        .serve_with_incoming_shutdown(
            connections(listener, acceptor, &options, counters),
            shutdown.begin.clone().cancelled_owned(),
        );
    tracing::info!(%address, tls = options.tls.is_enabled(), "listening");
    let on_drain = async {
        health_watch.abort();
        health::report(&reporter, ServingStatus::NotServing).await;
    };
    shutdown.run(server, on_drain).await
}

fn local_address(listener: &TcpListener) -> Result<SocketAddr> {
    listener.local_addr().map_err(|error| Error::internal(format!("cannot read the address of the listener: {error}")))
}

fn reflection()
-> Result<tonic_reflection::server::v1::ServerReflectionServer<impl tonic_reflection::server::v1::ServerReflection>> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(folio_proto::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        // Error details, so that a reflection client can decode the reason and the invalid fields.
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
        .build_v1()
        .map_err(|error| Error::internal(format!("cannot build the reflection service: {error}")))
}
