//! A serving process: gateway, node, or both, on embedded stores or as part of a cluster.

mod clock;
mod cluster;
mod first_start;
mod health;
mod http_port;
mod knowledge;
mod listeners;
mod memory;
mod metrics;
pub(crate) mod models;
mod node;
mod passage_index;
mod purchases;
mod renewal;
mod server_task;
mod stores;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use folio_accounts::Accounts;
use folio_documents::{CleanupHandle, IngestHandle, Uploader};
use folio_gateway::purchases::Purchases;
use folio_gateway::{Counters, Gateway};
use folio_history::peer::SharedPeer;
use folio_jobs::{JobControl, JobHints};
use folio_mcp::McpClient;
use folio_metering::{CreditMeter, QuotaMeter, SharedMeter, UsageRecorder};
use folio_operations::{Components, RunningExports};
use folio_process::clock::ProcessClock;
use folio_process::telemetry::{Exporter, Telemetry};
use folio_providers::{Providers, Vault};
use folio_quotas::{QuotaCache, Slots};
use folio_storage::{SharedStores, Stores};
use folio_storage_embedded::EmbeddedStore;
use folio_tools::images::NoImages;
use folio_types::Environment;
use futures::future::OptionFuture;
use llm_sim::LlmSim;
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use crate::StoreLayer;
use crate::local_endpoint::LocalChoice;
use crate::settings::{Role, Settings};
use cluster::Cluster;
use first_start::ensure_first_token;
use health::Health;
use http_port::HttpPort;
use knowledge::OpenKnowledge;
use listeners::Listeners;
use metrics::{GatewaySources, MetricSources, metrics};
use node::RunningNode;
use renewal::Renewal;
use server_task::ServerTask;

pub(crate) use first_start::{AccessStores, FirstToken, ensure_first_token_in_cluster, replace_admin_token};
pub(crate) use stores::{redis_options, with_setting};

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
    webhooks: folio_webhooks::Counters,
    mcp: McpClient,
    environment: Arc<dyn Environment>,
}

pub(crate) struct Server {
    /// The address of the public API, otherwise of the node.
    pub(crate) address: SocketAddr,
    node_address: Option<SocketAddr>,
    /// The administrator's token, if this start created it. None: an earlier start created the token.
    pub(crate) first_token: Option<FirstToken>,
    /// Describes the model endpoints that receive documents, and the source of this choice. The text has a further line for each
    /// model with an unknown context size.
    pub(crate) endpoint: String,
    parts: Parts,
}

/// The running components.
struct Parts {
    health: Health,
    /// The task that periodically compares the clock of this machine with those of the stores. Dropping the set stops
    /// the task.
    _clock: JoinSet<()>,
    gateway: Option<ServerTask>,
    node: Option<RunningNode>,
    /// The index of a gateway without a node.
    _gateway_knowledge: Option<OpenKnowledge>,
    credit: CreditMeter,
    renewal: Renewal,
    cluster: Option<Cluster>,
    embedded: Option<EmbeddedStore>,
    health_port: Option<HttpPort>,
    purchases: Option<HttpPort>,
    metrics_export: Option<MetricsExport>,
    offline: Option<LlmSim>,
}

pub(crate) async fn start(
    mut settings: Settings,
    (model, local): (Option<&str>, Option<LocalChoice>),
    telemetry: Option<&Telemetry>,
    layer: StoreLayer,
) -> Result<Server> {
    let (is_gateway, is_node) = (settings.server.is(Role::Gateway), settings.server.is(Role::Node));
    settings.documents = settings.documents.for_roles(is_gateway, is_node);
    let memory = memory::parts(&settings);
    folio_documents::check_machine(&settings.documents, &memory).await?;
    settings.documents = settings.documents.with_child_memory(&memory);
    let listeners = Listeners::bind(&settings).await?;
    let address = listeners.primary_address()?;
    let process_clock = Arc::new(ProcessClock::default());
    let environment: Arc<dyn Environment> = Arc::clone(&process_clock) as Arc<dyn Environment>;
    let started_at = environment.now();

    let stores::Opened { stores, shared, embedded } = stores::open(&settings, &environment).await?;
    let webhooks = folio_webhooks::Counters::default();
    let stores = folio_webhooks::with_events(layer(stores), Arc::clone(&shared.jobs), settings.jobs, webhooks.clone());
    let store_clocks = [&stores.health, &shared.health].map(Arc::clone);
    clock::compare(&process_clock, &store_clocks).await;
    process_clock.check_clock().context("the clock of this machine differs from those of the stores")?;
    if embedded.is_some() {
        settings.documents.scratch.get_or_insert_with(|| settings.storage.data.join("scratch"));
    }

    let mut endpoint = models::choose(&settings.models, model, local).await?;
    let mut description = vec![endpoint.describe()];
    endpoint.options = folio_llm::discover_context_sizes(endpoint.options, Arc::clone(&environment)).await;
    description.extend(models::report_unknown_sizes(&endpoint.options));
    let vault = Vault::new(&settings.secrets)?;
    let accounts = Accounts::new(&settings.users, Arc::clone(&shared.rates), &environment)?;
    let models = Providers::new(endpoint.options, &settings.providers, vault, &stores, Arc::clone(&environment))?;
    let renewal = Renewal::start(models.clone());
    let mcp = McpClient::new(models.clone())?;
    let models = Arc::new(models);
    let credit = CreditMeter::start(&stores, Arc::clone(&environment), settings.credit.clone()).await?;
    let quotas = QuotaCache::new(stores.of(), settings.limits.quotas());
    let meter: SharedMeter = match settings.credit.unlimited {
        true => Arc::new(
            UsageRecorder::new(Arc::clone(&stores.usage), Arc::clone(&environment))
                .with_abandoned_calls(settings.credit.abandoned_calls),
        ),
        false => Arc::new(credit.clone()),
    };
    let meter: SharedMeter =
        Arc::new(QuotaMeter::new(meter, Slots::of_model_calls(quotas.clone(), Arc::clone(&shared.slots))));
    let base = SharedComponents {
        stores,
        shared,
        models,
        meter,
        credit: credit.clone(),
        quotas,
        webhooks: webhooks.clone(),
        mcp,
        environment,
    };

    let cluster = match &embedded {
        Some(_) => None,
        None => Some(Cluster::start(settings.cluster.clone(), &base.shared, Arc::clone(&base.environment))?),
    };
    let health = Health::start(Arc::clone(&base.stores.health), settings.gateway.health_interval).await;

    let ingest = IngestHandle::new(Arc::clone(&base.shared.jobs));
    let (stores, environment) = (base.stores.clone(), Arc::clone(&base.environment));
    let uploader = Uploader::new(stores, environment, Some(ingest.clone()), &settings.documents);
    let uploader = uploader.with_quotas(base.quotas.clone());
    let hints = JobHints::new(Arc::clone(&base.shared.jobs));
    let jobs = JobControl::new(&base.stores, hints.clone(), Arc::clone(&base.environment), settings.jobs);
    let gateway_hints = hints.clone();
    let (mut node, mut clean_up) = (None, CleanupHandle::default());
    let local_ingest = settings.server.is(Role::Node).then(|| ingest.clone());
    if settings.server.is(Role::Node) {
        let clustered = cluster.as_ref().zip(listeners.node);
        let (running, handle) = RunningNode::start(
            &settings,
            &base,
            (ingest, uploader.clone(), hints, process_clock.watch()),
            clustered,
            health.reporter(),
        )
        .await?;
        (node, clean_up) = (Some(running), handle);
    }
    let node_address = node.as_ref().and_then(RunningNode::address);
    // A gateway searches in the indexes of the nodes, or on the Qdrant server.
    let gateway_knowledge = match (&node, &cluster) {
        (None, Some(cluster)) => {
            let member = Some((cluster, None));
            Some(knowledge::open(&settings, &base, &gateway_hints, member, Arc::new(NoImages)).await?)
        }
        _ => None,
    };
    let knowledge = node.as_ref().map(RunningNode::open_knowledge).or(gateway_knowledge.as_ref());
    let (counters, exports) = (Counters::default(), RunningExports::default());
    let sources = Arc::new(MetricSources {
        node: node.as_ref().map(|running| running.node().clone()),
        ingest: local_ingest,
        membership: cluster.as_ref().map(|cluster| cluster.membership.clone()),
        gateway: listeners.public.is_some().then(|| GatewaySources {
            counters: counters.clone(),
            uploads: uploader.active_uploads().clone(),
            exports: exports.clone(),
        }),
        stores: [&base.stores.health, &base.shared.health].map(Arc::clone),
        unreadable: base.stores.unreadable.clone(),
        qdrant: knowledge.and_then(|open| open.index.qdrant.clone()),
        models: Arc::clone(&base.models),
        credit: credit.counters(),
        webhooks,
        span_metrics: telemetry.map(Telemetry::span_metrics),
        clock: Arc::clone(&process_clock),
        started_at,
    });
    let port = |listener| health::start_port(listener, health.reporter(), Arc::clone(&sources));
    let health_port = listeners.health.map(port).transpose()?;
    let purchases = listeners.purchases.map(|listener| {
        let environment = Arc::clone(&base.environment);
        let purchases = Purchases::new(&settings.purchases.secrets, base.stores.clone(), credit.clone(), environment)?;
        purchases::start_port(listener, purchases)
    });
    let purchases = purchases.transpose()?;
    let metrics_export =
        telemetry.and_then(Telemetry::exporter).map(|exporter| MetricsExport::start(exporter, sources));
    // Nothing below fails. A start that failed after this step would never print the token, and the next start does not know it.
    let (environment, stores) = (base.environment.as_ref(), &base.stores);
    let first_token = match &embedded {
        Some(_) => ensure_first_token(stores, environment, settings.storage.data.join(TOKEN_FILE)).await?,
        None => ensure_first_token_in_cluster(&AccessStores::of(stores), environment).await?,
    };
    let gateway = match (listeners.public, conversations(&base.stores, cluster.as_ref(), node.as_ref())) {
        (Some(listener), Some(peer)) => {
            let SharedComponents { stores, shared, models, meter, credit, environment, mcp, .. } = base;
            let providers = Providers::clone(&models);
            let components = Components {
                quotas: settings.limits.quotas(),
                stores,
                open_turns: shared.turns,
                nodes: cluster.as_ref().map(|_| shared.nodes),
                models,
                providers,
                mcp: Arc::new(mcp),
                meter,
                credit,
                environment,
                extraction: settings.extraction,
                jobs,
                conversations: peer,
                knowledge: knowledge.map(|open| open.knowledge.clone()),
                uploader,
                exports,
                clean_up,
                accounts,
                tasks: TaskTracker::new(),
            };
            let parts = Gateway { components, rates: shared.rates, options: settings.gateway, counters };
            Some(ServerTask::start("the listener", |shutdown| folio_gateway::serve(listener, parts, shutdown)))
        }
        _ => None,
    };
    let offline = endpoint.offline;
    let mut clock_task = JoinSet::new();
    clock_task.spawn(clock::watch(process_clock, store_clocks));
    let parts = Parts {
        health,
        _clock: clock_task,
        gateway,
        node,
        _gateway_knowledge: gateway_knowledge,
        credit,
        renewal,
        cluster,
        embedded,
        health_port,
        purchases,
        metrics_export,
        offline,
    };
    Ok(Server { address, node_address, first_token, endpoint: description.join("\n"), parts })
}

struct MetricsExport {
    exporter: Exporter,
    sources: Arc<MetricSources>,
    task: JoinSet<()>,
}

impl MetricsExport {
    fn start(exporter: Exporter, sources: Arc<MetricSources>) -> Self {
        let (mut task, exported) = (JoinSet::new(), Arc::clone(&sources));
        task.spawn(exporter.clone().run(move || metrics(&exported)));
        Self { exporter, sources, task }
    }

    /// Stops the periodic export and exports the final metrics.
    async fn stop(mut self) {
        self.task.shutdown().await;
        self.exporter.export_final(&metrics(&self.sources)).await;
    }
}

/// Returns the peer through which the gateway of this process reaches conversations: the local node, or the router of
/// the cluster. None: the process has neither.
fn conversations(stores: &Stores, cluster: Option<&Cluster>, node: Option<&RunningNode>) -> Option<SharedPeer> {
    match (cluster, node) {
        (None, None) => None,
        (None, Some(running)) => Some(Arc::new(running.node().clone())),
        (Some(cluster), node) => {
            Some(cluster.peer(&stores.threads, node.and_then(|running| Some((running.address()?, running.node())))))
        }
    }
}

impl Server {
    /// Returns the addresses of the other listeners, each with its purpose.
    pub(crate) fn further_addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let port = |port: &Option<HttpPort>| port.as_ref().map(|port| port.address);
        let (health, purchases) = (port(&self.parts.health_port), port(&self.parts.purchases));
        let addresses = [("health", health), ("purchases", purchases), ("node", self.node_address)];
        addresses.into_iter().filter_map(|(name, address)| Some((name, address?)))
    }

    /// Waits until a listener fails.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        let Parts { gateway, node, .. } = &mut self.parts;
        let gateway = OptionFuture::from(gateway.as_mut().map(ServerTask::failed));
        let node = OptionFuture::from(node.as_mut().map(RunningNode::failed));
        tokio::select! {
            Some(error) = gateway => error,
            Some(error) = node => error,
            else => std::future::pending().await,
        }
    }

    /// Stops the server. New connections are refused first. Running turns, calls and document reads may end within
    /// `limit`; those that have not ended then are aborted. Then the node deregisters, and durable data is synced.
    pub(crate) async fn stop(self, limit: Duration) {
        let Parts {
            mut health,
            _clock,
            gateway,
            node,
            _gateway_knowledge,
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
        let gateway = OptionFuture::from(gateway.map(|gateway| gateway.drain(limit)));
        let node = OptionFuture::from(node.map(|node| node.drain(limit)));
        tokio::join!(gateway, node, OptionFuture::from(purchases.map(HttpPort::stop)));
        credit.stop(CREDIT_RETURN_TIMEOUT).await;
        renewal.stop().await;
        OptionFuture::from(cluster.as_ref().map(|cluster| cluster.membership.stop())).await;
        OptionFuture::from(embedded.map(EmbeddedStore::close)).await;
        OptionFuture::from(health_port.map(HttpPort::stop)).await;
        OptionFuture::from(metrics_export.map(MetricsExport::stop)).await;
        OptionFuture::from(offline.map(LlmSim::shutdown)).await;
    }
}
