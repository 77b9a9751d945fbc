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
use folio_cluster::Membership;
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
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

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
        health::tell(&reporter, ServingStatus::Serving).await;
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
        health::tell(&self.reporter, ServingStatus::NotServing).await;
    }
}

/// What figures are told of.
pub(crate) struct Observed {
    /// The conversations of a node.
    pub(crate) node: Option<Node>,
    /// Who lives in the cluster.
    pub(crate) membership: Option<Membership>,
    /// When the process started.
    pub(crate) started_at: Timestamp,
}

/// A running health port.
pub(crate) struct HealthPort {
    address: SocketAddr,
    server: JoinSet<()>,
    end: CancellationToken,
}

impl HealthPort {
    /// Starts on a listener.
    pub(crate) fn start(listener: TcpListener, reporter: HealthReporter, observed: Observed) -> Result<Self> {
        let address = listener.local_addr().context("the health port has no address")?;
        let service = HealthServer::new(HealthService::from_health_reporter(reporter));
        let (mut server, end) = (JoinSet::new(), CancellationToken::new());
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

/// One line of help, one of type, one of the value, for each figure.
fn figures(observed: &Observed) -> String {
    let mut text = String::new();
    let mut tell = |name: &str, kind: &str, help: &str, value: u64| {
        let _ = writeln!(text, "# HELP folio_{name} {help}\n# TYPE folio_{name} {kind}\nfolio_{name} {value}");
    };
    let (gauge, counter) = ("gauge", "counter");
    tell("start_time_seconds", gauge, "When the process started.", observed.started_at.as_second().unsigned_abs());
    if let Some(now) = observed.node.as_ref().map(Node::snapshot) {
        tell("draining", gauge, "Whether the node takes nothing new.", now.draining.into());
        tell("conversations", gauge, "Conversations in memory.", wide(now.live));
        let help = "Conversations in memory that have work, up to a thousand.";
        tell("conversations_busy", gauge, help, wide(now.busy.len()));
        tell("history_bytes", gauge, "Bytes of journals whose histories are in memory.", now.history_bytes);
        tell("tasks", gauge, "Model calls, tools and store operations under way.", wide(now.tasks));
        tell("conversations_started_total", counter, "Conversations that came into memory.", now.started);
        tell("conversations_passivated_total", counter, "Conversations that left memory unused.", now.passivated);
        tell("conversations_failed_total", counter, "Conversations that a fault stopped.", now.failed);
    }
    if let Some(membership) = &observed.membership {
        let live = membership.live().borrow().clone();
        let draining = live.iter().filter(|member| member.node.draining).count();
        tell(
            "nodes_up",
            gauge,
            "Nodes of the cluster that take work, as far as known here.",
            wide(live.len() - draining),
        );
        tell("nodes_draining", gauge, "Nodes of the cluster that drain, as far as known here.", wide(draining));
        tell("heartbeats_answered", gauge, "Whether Redis answers this process.", membership.answers().into());
    }
    text
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
