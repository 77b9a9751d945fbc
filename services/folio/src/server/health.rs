//! The health port: what probes and monitors ask, in plain text and without a token, apart from the public API.
//!
//! `grpc.health.v1` answers for the empty name whether the process takes work (its stores answer, and it is not told to
//! stop), and for `live` whether it runs at all: a process whose stores are away is not helped by a restart. `/metrics`
//! gives figures as Prometheus reads them.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use folio_gateway::health;
use folio_node::Node;
use folio_storage::StoreHealth;
use folio_types::Timestamp;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The name that says whether the process runs.
pub(crate) const LIVE: &str = "live";
/// What figures are written in.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Connections that silent monitors may leave behind are asked for this often.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// How long an answer under way may take at the end.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// What figures are told of.
pub(crate) struct Observed {
    /// The stores.
    pub(crate) stores: Arc<dyn StoreHealth>,
    /// How often they are asked.
    pub(crate) interval: Duration,
    /// The conversations.
    pub(crate) node: Node,
    /// When the process started.
    pub(crate) started_at: Timestamp,
}

/// A running health port.
pub(crate) struct HealthPort {
    address: SocketAddr,
    reporter: HealthReporter,
    watch: JoinSet<()>,
    server: JoinSet<()>,
    end: CancellationToken,
}

impl HealthPort {
    /// Starts on a listener.
    pub(crate) async fn start(listener: TcpListener, observed: Observed) -> Result<Self> {
        let address = listener.local_addr().context("the health port has no address")?;
        let (reporter, service) = tonic_health::server::health_reporter();
        reporter.set_service_status(LIVE, ServingStatus::Serving).await;
        health::tell(&reporter, ServingStatus::Serving).await;
        let (mut watch, mut server, end) = (JoinSet::new(), JoinSet::new(), CancellationToken::new());
        watch.spawn(health::watch(reporter.clone(), Arc::clone(&observed.stores), observed.interval));

        let observed = Arc::new(observed);
        let page = move || std::future::ready(([(CONTENT_TYPE, PROMETHEUS)], figures(&observed)));
        let figures = Router::new().route("/metrics", get(page));
        let serving = Server::builder()
            .accept_http1(true)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            .add_routes(Routes::from(figures).add_service(service))
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
        Ok(Self { address, reporter, watch, server, end })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on the process says that it takes no work; it still lives.
    pub(crate) async fn drain(&mut self) {
        self.watch.shutdown().await;
        health::tell(&self.reporter, ServingStatus::NotServing).await;
    }

    /// Ends it.
    pub(crate) async fn stop(mut self) {
        self.end.cancel();
        // Whoever watches health has an answer that never ends.
        let _ = tokio::time::timeout(ENDS_WITHIN, self.server.join_next()).await;
    }
}

/// One line of help, one of type, one of the value, for each figure.
fn figures(observed: &Observed) -> String {
    let snapshot = observed.node.snapshot();
    let mut text = String::new();
    let mut tell = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = writeln!(text, "# HELP folio_{name} {help}\n# TYPE folio_{name} {kind}\nfolio_{name} {value}");
    };
    let gauge = "gauge";
    tell("start_time_seconds", gauge, "When the process started.", observed.started_at.as_second().unsigned_abs());
    tell("draining", gauge, "Whether the node takes nothing new.", snapshot.draining.into());
    tell("conversations", gauge, "Conversations in memory.", wide(snapshot.live));
    tell(
        "conversations_busy",
        gauge,
        "Conversations in memory that have work, up to a thousand.",
        wide(snapshot.busy.len()),
    );
    tell("history_bytes", gauge, "Bytes of journals whose histories are in memory.", snapshot.history_bytes);
    tell("tasks", gauge, "Model calls, tools and store operations under way.", wide(snapshot.tasks));
    let counter = "counter";
    tell("conversations_started_total", counter, "Conversations that came into memory.", snapshot.started);
    tell("conversations_passivated_total", counter, "Conversations that left memory unused.", snapshot.passivated);
    tell("conversations_failed_total", counter, "Conversations that a fault stopped.", snapshot.failed);
    text
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
