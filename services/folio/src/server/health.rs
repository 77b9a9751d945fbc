//! The health port for probes and monitors: plain text, without a token, separate from the public API.
//!
//! `grpc.health.v1` reports readiness for the empty name (the stores respond and the process does not drain), and
//! liveness for `live`: a restart does not help a process whose stores are unavailable. `/metrics` serves the metrics
//! in the format of Prometheus.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use folio_gateway::health;
use folio_storage::StoreHealth;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

use super::http_port::HttpPort;
use super::metrics::{MetricSources, metrics};
use folio_process::metrics::encode_prometheus;

/// The service name of the liveness check.
pub(crate) const LIVE: &str = "live";
/// The content type of `/metrics`.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Keepalive interval, which detects connections that monitors abandoned.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// Time limit for responses in progress at the stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

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

/// Starts the health port.
pub(crate) fn start_port(
    listener: TcpListener,
    reporter: HealthReporter,
    sources: Arc<MetricSources>,
) -> Result<HttpPort> {
    let service = HealthServer::new(HealthService::from_health_reporter(reporter));
    let metrics_page =
        move || std::future::ready(([(CONTENT_TYPE, PROMETHEUS)], encode_prometheus(&metrics(&sources))));
    let pages = Router::new().route("/metrics", get(metrics_page));
    let server = Server::builder()
        .accept_http1(true)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_routes(Routes::from(pages).add_service(service));
    // A client that watches health has a response that never ends, so the stop does not wait for it.
    HttpPort::start("probes", listener, STOP_TIMEOUT, |listener, end| {
        let connections = TcpIncoming::from(listener).with_nodelay(Some(true));
        server.serve_with_incoming_shutdown(connections, end.cancelled_owned())
    })
}
