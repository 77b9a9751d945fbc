//! The health port for probes and monitors: plain text, without a token, separate from the public API.
//!
//! `grpc.health.v1` reports readiness for the empty name (the stores respond and the process does not drain), and
//! liveness for `live`: a restart does not help a process whose stores are unavailable. `/metrics` serves the metrics
//! in the format of Prometheus.

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

use super::metrics::{Observed, metrics};
use folio_process::metrics::page;

/// The service name of the liveness check.
pub(crate) const LIVE: &str = "live";
/// The content type of `/metrics`.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Keepalive interval, which detects connections that monitors abandoned.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Time limit for responses in progress at the stop.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// The health of the process, for its health port and a node's listener.
pub(crate) struct Health {
    reporter: HealthReporter,
    watch: JoinSet<()>,
}

impl Health {
    pub(crate) async fn start(stores: Arc<dyn StoreHealth>, interval: Duration) -> Self {
        let (reporter, mut watch) = (HealthReporter::new(), JoinSet::new());
        reporter.set_service_status(LIVE, ServingStatus::Serving).await;
        health::report(&reporter, ServingStatus::Serving).await;
        watch.spawn(health::watch(reporter.clone(), stores, interval));
        Self { reporter, watch }
    }

    pub(crate) fn reporter(&self) -> HealthReporter {
        self.reporter.clone()
    }

    /// Reports that the process is not ready. It stays live.
    pub(crate) async fn drain(&mut self) {
        self.watch.shutdown().await;
        health::report(&self.reporter, ServingStatus::NotServing).await;
    }
}

pub(crate) struct HealthPort {
    address: SocketAddr,
    server: JoinSet<()>,
    end: CancellationToken,
}

impl HealthPort {
    pub(crate) fn start(listener: TcpListener, reporter: HealthReporter, observed: Arc<Observed>) -> Result<Self> {
        let address = listener.local_addr().context("the health port has no address")?;
        let service = HealthServer::new(HealthService::from_health_reporter(reporter));
        let (mut server, end) = (JoinSet::new(), CancellationToken::new());
        let metrics_page = move || std::future::ready(([(CONTENT_TYPE, PROMETHEUS)], page(&metrics(&observed))));
        let pages = Router::new().route("/metrics", get(metrics_page));
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

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn stop(mut self) {
        self.end.cancel();
        // A client that watches health has a response that never ends.
        let _ = tokio::time::timeout(ENDS_WITHIN, self.server.join_next()).await;
    }
}
