//! A serving process: gateway, node, or both, on embedded stores or as part of a cluster.

mod cluster;
mod first_start;
mod gateway;
mod health;
mod listeners;
mod metrics;
mod models;
mod node;
mod purchases;
mod renewal;
mod stores;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use folio_documents::{CleanupHandle, IngestHandle, Uploader};
use folio_gateway::purchases::Purchases;
use folio_gateway::{Counters, Gateway};
use folio_history::peer::SharedPeer;
use folio_metering::{CreditMeter, QuotaMeter, SharedMeter, UsageRecorder};
use folio_operations::Components;
use folio_process::telemetry::{Exporter, Telemetry};
use folio_providers::{Providers, Vault};
use folio_quotas::{QuotaCache, Slots};
use folio_storage::{SharedStores, Stores};
use folio_storage_embedded::EmbeddedStore;
use folio_types::{Environment, System};
use llm_sim::LlmSim;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::task::TaskTracker;

use crate::StoreLayer;
use crate::settings::{Role, Settings};
use cluster::Cluster;
use gateway::RunningGateway;
use health::{Health, HealthPort};
use listeners::Listeners;
use metrics::{Observed, metrics};
use node::{RunningNode, Uploads};
use purchases::PurchasePort;
use renewal::Renewal;

pub(crate) use first_start::{AccessStores, FirstToken, another, ensure_shared};
pub(crate) use stores::{at, redis_options};

/// Time limit for returning credit: a few writes per organization.
const CREDIT_RETURN_TIMEOUT: Duration = Duration::from_secs(5);

/// File in the data folder that contains the administrator's token.
pub(crate) const TOKEN_FILE: &str = "admin.token";

/// The components that every role uses.
pub(crate) struct SharedComponents {
    stores: Stores,
    shared: SharedStores,
    models: Arc<Providers>,
    meter: SharedMeter,
    credit: CreditMeter,
    quotas: QuotaCache,
    environment: Arc<dyn Environment>,
}

pub(crate) struct Server {
    address: SocketAddr,
    node_address: Option<SocketAddr>,
    first_token: Option<FirstToken>,
    endpoint: String,
    parts: Parts,
}

/// The running components.
struct Parts {
    health: Health,
    gateway: Option<RunningGateway>,
    node: Option<RunningNode>,
    credit: CreditMeter,
    renewal: Renewal,
    cluster: Option<Cluster>,
    embedded: Option<EmbeddedStore>,
    health_port: Option<HealthPort>,
    purchases: Option<PurchasePort>,
    metrics_export: Option<MetricsExport>,
    offline: Option<LlmSim>,
}

pub(crate) async fn start(
    mut settings: Settings,
    model: Option<&str>,
    telemetry: Option<&Telemetry>,
    layer: StoreLayer,
) -> Result<Server> {
    let listeners = Listeners::bind(&settings).await?;
    let address = listeners.main()?;
    let environment: Arc<dyn Environment> = Arc::new(System);
    let started_at = environment.now();

    let stores::Opened { stores, shared, embedded } = stores::open(&settings, &environment).await?;
    let stores = layer(stores);
    let first_token = match &embedded {
        Some(_) => {
            settings.documents.scratch.get_or_insert_with(|| settings.storage.data.join("scratch"));
            first_start::ensure(&stores, environment.as_ref(), settings.storage.data.join(TOKEN_FILE)).await?
        }
        None => ensure_shared(&AccessStores::of(&stores), environment.as_ref()).await?,
    };

    let endpoint = models::choose(&settings.models, model).await?;
    let description = endpoint.describe();
    let vault = Vault::new(&settings.secrets)?;
    let models = Providers::new(endpoint.options, &settings.providers, vault, &stores, Arc::clone(&environment))?;
    let renewal = Renewal::start(models.clone());
    let models = Arc::new(models);
    let credit = CreditMeter::start(&stores, Arc::clone(&environment), settings.credit.clone()).await?;
    let quotas = QuotaCache::new(stores.of(), settings.limits);
    let meter: SharedMeter = match settings.credit.unlimited {
        true => Arc::new(
            UsageRecorder::new(Arc::clone(&stores.usage), Arc::clone(&environment))
                .with_abandoned_calls(settings.credit.abandoned_calls),
        ),
        false => Arc::new(credit.clone()),
    };
    let meter: SharedMeter =
        Arc::new(QuotaMeter::new(meter, Slots::of_model_calls(quotas.clone(), Arc::clone(&shared.slots))));
    let base = SharedComponents { stores, shared, models, meter, credit: credit.clone(), quotas, environment };

    let cluster = match &embedded {
        Some(_) => None,
        None => Some(Cluster::start(settings.cluster.clone(), &base.shared, Arc::clone(&base.environment))?),
    };
    let health = Health::start(Arc::clone(&base.stores.health), settings.gateway.health_interval).await;

    let ingest = IngestHandle::new(Arc::clone(&base.shared.jobs));
    let (stores, environment) = (base.stores.clone(), Arc::clone(&base.environment));
    let uploader = Uploader::new(stores, environment, Some(ingest.clone()), &settings.documents);
    let uploader = uploader.with_quotas(base.quotas.clone());
    let (mut node, mut clean_up) = (None, CleanupHandle::default());
    let local_ingest = settings.server.is(Role::Node).then(|| ingest.clone());
    if settings.server.is(Role::Node) {
        let clustered = cluster.as_ref().zip(listeners.node);
        let uploads = Uploads { ingest, active_uploads: uploader.active_uploads().clone() };
        let (running, handle) = RunningNode::start(&settings, &base, uploads, clustered, health.reporter()).await?;
        (node, clean_up) = (Some(running), handle);
    }
    let node_address = node.as_ref().and_then(RunningNode::address);
    let counters = Counters::default();
    let observed = Arc::new(Observed {
        node: node.as_ref().map(|running| running.node().clone()),
        ingest: local_ingest,
        membership: cluster.as_ref().map(|cluster| cluster.membership().clone()),
        gateway: listeners.public.is_some().then(|| (counters.clone(), uploader.active_uploads().clone())),
        stores: [&base.stores.health, &base.shared.health].map(Arc::clone),
        models: Arc::clone(&base.models),
        credit: credit.counters(),
        measured: telemetry.map(Telemetry::span_metrics),
        started_at,
    });
    let port = |listener| HealthPort::start(listener, health.reporter(), Arc::clone(&observed));
    let health_port = listeners.health.map(port).transpose()?;
    let purchases = listeners.purchases.map(|listener| {
        let environment = Arc::clone(&base.environment);
        let purchases = Purchases::new(&settings.purchases.secrets, &base.stores, credit.clone(), environment)?;
        PurchasePort::start(listener, purchases)
    });
    let purchases = purchases.transpose()?;
    let metrics_export =
        telemetry.and_then(Telemetry::exporter).map(|exporter| MetricsExport::start(exporter, observed));
    let gateway = match (listeners.public, conversations(&base.stores, cluster.as_ref(), node.as_ref())) {
        (Some(listener), Some(peer)) => {
            let SharedComponents { stores, shared, models, meter, credit, quotas: _, environment } = base;
            let providers = Providers::clone(&models);
            let components = Components {
                quotas: settings.limits,
                stores,
                open_turns: shared.turns,
                models,
                providers,
                meter,
                credit,
                environment,
                conversations: peer,
                uploader,
                clean_up,
                tasks: TaskTracker::new(),
            };
            let parts = Gateway { components, rates: shared.rates, options: settings.gateway, counters };
            Some(RunningGateway::start(listener, parts))
        }
        _ => None,
    };
    let offline = endpoint.offline;
    let parts = Parts {
        health,
        gateway,
        node,
        credit,
        renewal,
        cluster,
        embedded,
        health_port,
        purchases,
        metrics_export,
        offline,
    };
    Ok(Server { address, node_address, first_token, endpoint: description, parts })
}

struct MetricsExport {
    exporter: Exporter,
    observed: Arc<Observed>,
    task: JoinSet<()>,
}

impl MetricsExport {
    fn start(exporter: Exporter, observed: Arc<Observed>) -> Self {
        let (mut task, source) = (JoinSet::new(), Arc::clone(&observed));
        task.spawn(exporter.clone().run(move || metrics(&source)));
        Self { exporter, observed, task }
    }

    /// Stops the periodic export and exports the final metrics.
    async fn stop(mut self) {
        self.task.shutdown().await;
        self.exporter.export_final(&metrics(&self.observed)).await;
    }
}

/// Returns the conversations that a gateway of this process calls.
fn conversations(stores: &Stores, cluster: Option<&Cluster>, node: Option<&RunningNode>) -> Option<SharedPeer> {
    match (cluster, node) {
        (None, None) => None,
        (None, Some(running)) => Some(Arc::new(running.node().clone())),
        (Some(cluster), node) => {
            Some(cluster.peer(&stores.threads, node.and_then(|running| Some((running.address()?, running.node())))))
        }
    }
}

/// Waits for the end of a listener task, which is always an error.
async fn ended(task: &mut JoinHandle<folio_types::Result<()>>, what: &str) -> anyhow::Error {
    match task.await {
        Ok(Ok(())) => anyhow::anyhow!("{what} ended"),
        Ok(Err(error)) => anyhow::Error::new(error).context(format!("{what} failed")),
        Err(error) => anyhow::Error::new(error).context(format!("{what} failed")),
    }
}

impl Server {
    /// The address of the public API, otherwise of the node.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for gateways and other nodes.
    pub(crate) fn node_address(&self) -> Option<SocketAddr> {
        self.node_address
    }

    pub(crate) fn health_address(&self) -> Option<SocketAddr> {
        self.parts.health_port.as_ref().map(HealthPort::address)
    }

    pub(crate) fn purchases_address(&self) -> Option<SocketAddr> {
        self.parts.purchases.as_ref().map(PurchasePort::address)
    }

    /// The administrator's token. None: an earlier start created it.
    pub(crate) fn first_token(&self) -> Option<&FirstToken> {
        self.first_token.as_ref()
    }

    /// Describes the model endpoints that receive documents, and the source of this choice.
    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Waits until a listener fails.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        let Parts { gateway, node, .. } = &mut self.parts;
        let gateway = async {
            match gateway {
                Some(gateway) => gateway.failed().await,
                None => std::future::pending().await,
            }
        };
        let node = async {
            match node {
                Some(node) => node.failed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            error = gateway => error,
            error = node => error,
        }
    }

    /// Stops the server. New connections are refused first. Running turns, calls and document reads may end within the
    /// limit; the others are aborted. Then the node deregisters, and durable data is synced.
    pub(crate) async fn stop(self, limit: Duration) {
        let Parts {
            mut health,
            gateway,
            node,
            credit,
            renewal,
            cluster,
            embedded,
            health_port,
            metrics_export,
            purchases,
            offline,
        } = self.parts;
        if let Some(gateway) = &gateway {
            gateway.begin_to_stop();
        }
        health.drain().await;
        let gateway = async {
            if let Some(gateway) = gateway {
                gateway.drain(limit).await;
            }
        };
        let node = async {
            if let Some(node) = node {
                node.drain(limit).await;
            }
        };
        let purchases = async {
            if let Some(purchases) = purchases {
                purchases.stop().await;
            }
        };
        tokio::join!(gateway, node, purchases);
        credit.stop(CREDIT_RETURN_TIMEOUT).await;
        renewal.stop().await;
        if let Some(cluster) = cluster {
            cluster.membership().stop().await;
        }
        if let Some(embedded) = embedded {
            embedded.close().await;
        }
        if let Some(health_port) = health_port {
            health_port.stop().await;
        }
        if let Some(metrics_export) = metrics_export {
            metrics_export.stop().await;
        }
        if let Some(offline) = offline {
            offline.shutdown().await;
        }
    }
}
