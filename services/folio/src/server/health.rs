//! The health port: what probes and monitors ask, in plain text and without a token, apart from the public API.
//!
//! `grpc.health.v1` answers for the empty name whether the process takes work (its stores answer, and it is not told to
//! stop), and for `live` whether it runs at all: a process whose stores are away is not helped by a restart. `/metrics`
//! gives figures as Prometheus reads them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use folio_gateway::health;
use folio_storage::StoreHealth;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

use super::figures::{Observed, figures};
use folio_process::figures::page;

/// The name that says whether the process runs.
pub(crate) const LIVE: &str = "live";
/// What figures are written in.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Connections that silent monitors may leave behind are asked for this often.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// How long an answer under way may take at the end.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// What the process says of itself, on its health port and on a node's own.
pub(crate) struct Health {
    reporter: HealthReporter,
    watch: JoinSet<()>,
}

impl Health {
    /// Begins to ask the stores.
    pub(crate) async fn start(stores: Arc<dyn StoreHealth>, interval: Duration) -> Self {
        let (reporter, mut watch) = (HealthReporter::new(), JoinSet::new());
        reporter.set_service_status(LIVE, ServingStatus::Serving).await;
        health::report(&reporter, ServingStatus::Serving).await;
        watch.spawn(health::watch(reporter.clone(), stores, interval));
        Self { reporter, watch }
    }

    /// Who is told.
    pub(crate) fn reporter(&self) -> HealthReporter {
        self.reporter.clone()
    }

    /// From now on the process says that it takes no work; it still lives.
    pub(crate) async fn drain(&mut self) {
        self.watch.shutdown().await;
        health::report(&self.reporter, ServingStatus::NotServing).await;
    }
}

/// A running health port.
pub(crate) struct HealthPort {
    address: SocketAddr,
    server: JoinSet<()>,
    end: CancellationToken,
}

impl HealthPort {
    /// Starts on a listener.
    pub(crate) fn start(listener: TcpListener, reporter: HealthReporter, observed: Arc<Observed>) -> Result<Self> {
        let address = listener.local_addr().context("the health port has no address")?;
        let service = HealthServer::new(HealthService::from_health_reporter(reporter));
        let (mut server, end) = (JoinSet::new(), CancellationToken::new());
        let told = move || std::future::ready(([(CONTENT_TYPE, PROMETHEUS)], page(&figures(&observed))));
        let pages = Router::new().route("/metrics", get(told));
        let serving = Server::builder()
            .accept_http1(true)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            .add_routes(Routes::from(pages).add_service(service))
            .serve_with_incoming_shutdown(
                TcpIncoming::from(listener).with_nodelay(Some(true)),
                end.clone().cancelled_owned(),
            );
        server.spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(?error, "the health port failed");
            }
        });
        tracing::info!(%address, "listening for probes");
        Ok(Self { address, server, end })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) {
        self.end.cancel();
        // Whoever watches health has an answer that never ends.
        let _ = tokio::time::timeout(ENDS_WITHIN, self.server.join_next()).await;
    }
}
