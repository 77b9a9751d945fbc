//! The metrics of a process, for `/metrics` and the collector. docs/observability.md lists the metrics, and
//! docs/operations.md the alerts.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio_breaker::BreakerState;
use folio_cluster::Membership;
use folio_documents::{ActiveUploads, IngestHandle};
use folio_gateway::Counters;
use folio_index_qdrant::QdrantIndex;
use folio_jobs::{EndedJobs, JobsSnapshot, QueueLoad};
use folio_llm::EndpointStatus;
use folio_node::Node;
use folio_operations::RunningExports;
use folio_process::clock::ProcessClock;
use folio_process::metrics::{Family, Kind};
use folio_process::telemetry::span_metrics::SpanMetrics;
use folio_providers::Providers;
use folio_storage::{CallCounters, StoreHealth, UnreadableRecords};
use folio_types::Timestamp;

/// The components whose state the metrics describe.
pub(crate) struct MetricSources {
    /// The node. None: the process is only a gateway.
    pub(crate) node: Option<Node>,
    /// The load of ingestion. None: the process is only a gateway.
    pub(crate) ingest: Option<IngestHandle>,
    /// None: the process is not part of a cluster.
    pub(crate) membership: Option<Membership>,
    /// None: the process is not a gateway.
    pub(crate) gateway: Option<GatewaySources>,
    /// The durable and the shared stores.
    pub(crate) stores: [Arc<dyn StoreHealth>; 2],
    pub(crate) unreadable: UnreadableRecords,
    /// None: the index of passages is not on a Qdrant server.
    pub(crate) qdrant: Option<Arc<QdrantIndex>>,
    pub(crate) models: Arc<Providers>,
    pub(crate) credit: folio_metering::Counters,
    pub(crate) webhooks: folio_webhooks::Counters,
    /// Histograms of span durations. None: telemetry is not running.
    pub(crate) span_metrics: Option<Arc<SpanMetrics>>,
    pub(crate) clock: Arc<ProcessClock>,
    /// Start time of the process.
    pub(crate) started_at: Timestamp,
}

/// The components of a gateway whose state the metrics describe.
pub(crate) struct GatewaySources {
    pub(crate) counters: Counters,
    pub(crate) uploads: ActiveUploads,
    pub(crate) exports: RunningExports,
}

#[derive(Default)]
struct MetricsBuilder(Vec<Family>);

impl MetricsBuilder {
    /// Adds a gauge with one value.
    fn gauge(&mut self, name: &str, help: &'static str, value: u64) {
        self.0.push(Family::new(name, Kind::Gauge, help).with(Vec::new(), value));
    }

    /// Adds a counter with one value.
    fn counter(&mut self, name: &str, help: &'static str, value: u64) {
        self.0.push(Family::new(name, Kind::Counter, help).with(Vec::new(), value));
    }

    /// Adds a metric with one value per label.
    fn per_label<T>(
        &mut self,
        (name, kind, help): (&str, Kind, &'static str),
        items: &[T],
        label: &'static str,
        label_of: impl Fn(&T) -> String,
        value_of: impl Fn(&T) -> u64,
    ) {
        let family = Family::new(name, kind, help);
        let add = |family: Family, item| family.with(vec![(label, label_of(item))], value_of(item));
        self.0.push(items.iter().fold(family, add));
    }
}

pub(crate) fn metrics(sources: &MetricSources) -> Vec<Family> {
    let mut page = MetricsBuilder::default();
    let help = "Difference between the clock of the process and the clocks of the stores.";
    page.gauge("clock_skew_milliseconds", help, sources.clock.skew_milliseconds());
    page.gauge("clock_wrong", "1: the clock is wrong; the process writes nothing.", (!sources.clock.is_right()).into());
    let help = "Start time of the process, in seconds since the Unix epoch.";
    page.gauge("start_time_seconds", help, sources.started_at.as_second().unsigned_abs());
    let help = "Records that sweeps of this process skip because they cannot be decoded, at most 1,024.";
    page.gauge("unreadable_records", help, as_u64(sources.unreadable.count()));
    if let Some(now) = sources.node.as_ref().map(Node::snapshot) {
        page.gauge("draining", "1: the node drains and accepts no new work.", now.draining.into());
        page.gauge("conversations", "Conversations in memory.", as_u64(now.live));
        page.gauge("conversations_busy", "Conversations in memory with work in progress.", as_u64(now.working));
        page.gauge("history_bytes", "Bytes of journals whose histories are in memory.", now.history_bytes);
        page.gauge("tasks", "Model calls, tools and store operations in progress.", as_u64(now.tasks));
        page.gauge("chats_queued", "Chats that wait in the queue of a running turn.", as_u64(now.queued));
        let help = "Requests to conversations that were admitted and not answered.";
        page.gauge("requests", help, as_u64(now.in_flight));
        page.gauge("watchers", "Streams that follow turns.", as_u64(now.watchers));
        page.counter("conversations_started_total", "Conversations that were loaded.", now.started);
        let help = "Idle conversations that were removed from memory.";
        page.counter("conversations_passivated_total", help, now.passivated);
        page.counter("conversations_failed_total", "Conversations that an error stopped.", now.failed);
        page.counter("turns_started_total", "Turns that were accepted.", now.turns_started);
        page.counter("turns_completed_total", "Turns that were completed.", now.turns_completed);
        page.counter("turns_failed_total", "Turns that failed; a resumed turn may fail again.", now.turns_failed);
        let help = "Threads that were taken over from a dead or draining incarnation.";
        page.counter("threads_taken_over_total", help, now.taken_over);
    }
    if let Some(node) = &sources.node {
        page.gauge(
            "page_images",
            "Page images and PDF renditions that are being made.",
            as_u64(node.rendered_images()),
        );
        add_jobs(&mut page, &node.jobs_snapshot());
    }
    if let Some(load) = sources.ingest.as_ref().map(IngestHandle::load) {
        page.gauge("documents_reading", "Documents that this node reads now.", load.reading);
        let help = "Documents in the queue that no node reads yet, at the last count.";
        page.gauge("documents_waiting", help, load.waiting);
    }
    if let Some(GatewaySources { counters: counts, uploads, exports }) = &sources.gateway {
        page.counter("calls_total", "Calls of the public API.", counts.calls());
        let help = "Calls that were refused because no permit was free: OVERLOADED.";
        page.counter("calls_refused_total", help, counts.refused());
        page.gauge("connections", "Open connections of callers.", counts.connections());
        let help = "Calls whose token was not valid, and failed sign-ins.";
        page.counter("failed_authentications_total", help, counts.failed_authentications());
        let help = "Connections and calls without a valid token that newer ones displaced.";
        page.counter("unauthenticated_evicted_total", help, counts.evictions());
        let load = uploads.load();
        page.gauge("uploads", "Uploads in progress.", as_u64(load.permits));
        page.gauge("upload_bytes", "Reserved bytes of uploads in progress.", load.bytes);
        page.gauge("exports", "Files of exports that are written now.", as_u64(exports.count()));
    }
    if let Some(membership) = &sources.membership {
        let live = membership.live().borrow().clone();
        let draining = live.iter().filter(|member| member.node.draining).count();
        let help = "Live nodes that accept work, in the membership view of this process.";
        page.gauge("nodes_up", help, as_u64(live.len() - draining));
        let help = "Live nodes that drain, in the membership view of this process.";
        page.gauge("nodes_draining", help, as_u64(draining));
        let help = "1: the store of heartbeats responds to this process.";
        page.gauge("heartbeats_answered", help, membership.is_store_available().into());
    }
    add_credit(&mut page, &sources.credit);
    add_webhooks(&mut page, &sources.webhooks);
    add_models(&mut page, sources.models.endpoints());
    let stores = sources.stores.iter().filter_map(|store| store.call_counters());
    let qdrant = sources.qdrant.iter().map(|index| index.call_counters());
    let servers: Vec<CallCounters> = stores.chain(qdrant).collect();
    add_stores(&mut page, &servers);
    page.0.extend(sources.span_metrics.iter().flat_map(|span_metrics| span_metrics.families()));
    page.0
}

fn add_credit(page: &mut MetricsBuilder, credit: &folio_metering::Counters) {
    page.gauge("spu_reserved", "Credits reserved for model calls in progress.", credit.reserved());
    page.counter("spu_used_total", "Credits used by model calls of this process.", credit.used());
    let help = "Model calls that were refused because an organization's credit was exhausted.";
    page.counter("spu_refused_total", help, credit.refused());
    let help = "Model calls that were settled after their reservation had expired.";
    page.counter("spu_settled_late_total", help, credit.settled_late());
}

fn add_jobs(page: &mut MetricsBuilder, jobs: &JobsSnapshot) {
    let mut add = |name, help, value: fn(&QueueLoad) -> u64| {
        let label_of = |load: &QueueLoad| load.queue.slots().to_owned();
        page.per_label((name, Kind::Gauge, help), &jobs.queues, "queue", label_of, value);
    };
    add("jobs_open", "Open jobs of all nodes, at the last sweep of this node.", |load| load.open);
    add("jobs_ready", "Jobs that this node can start, at its last sweep.", |load| load.ready);
    add("jobs_running", "Jobs that this node runs.", |load| load.running);
    let mut add = |name, help, value: fn(&EndedJobs) -> u64| {
        let family = Family::new(name, Kind::Counter, help);
        page.0.push(jobs.ended.iter().fold(family, |family, ended| {
            let labels = vec![("kind", ended.kind.to_owned()), ("outcome", ended.end.to_owned())];
            family.with(labels, value(ended))
        }));
    };
    add("jobs_ended_total", "Ended jobs that this node found.", |ended| ended.count);
    let help = "Sum of the times from the creation to the end of ended jobs, in seconds.";
    add("jobs_ended_seconds_total", help, |ended| ended.seconds);
}

fn add_webhooks(page: &mut MetricsBuilder, webhooks: &folio_webhooks::Counters) {
    let help = "Events that are not delivered to an endpoint, because it has too many open deliveries.";
    page.counter("webhook_events_dropped_total", help, webhooks.dropped());
    let help = "Webhook endpoints that were disabled, because they failed for too long.";
    page.counter("webhook_endpoints_disabled_total", help, webhooks.disabled_endpoints());
    let help = "Jobs that were not created after the write that triggers them.";
    let family = Family::new("jobs_refused_total", Kind::Counter, help);
    page.0.push(webhooks.refused_jobs().into_iter().fold(family, |family, ((kind, reason), count)| {
        family.with(vec![("kind", kind.to_owned()), ("error", reason.to_owned())], count)
    }));
}

/// The sum over the endpoints of a provider. Organizations may call it with their own keys, which are separate
/// endpoints.
#[derive(Default)]
struct ProviderMetrics {
    calls: u64,
    waiting: u64,
    circuit_open: bool,
}

fn add_models(page: &mut MetricsBuilder, endpoints: Vec<EndpointStatus>) {
    let mut providers: BTreeMap<String, ProviderMetrics> = BTreeMap::new();
    for endpoint in endpoints {
        let provider = providers.entry(endpoint.name).or_default();
        provider.calls += as_u64(endpoint.calls);
        provider.waiting += as_u64(endpoint.waiting);
        provider.circuit_open |= !matches!(endpoint.breaker, BreakerState::Closed { .. });
    }
    let providers: Vec<_> = providers.into_iter().collect();
    let mut add = |name, help, value: fn(&ProviderMetrics) -> u64| {
        let label_of = |(name, _): &(String, _)| name.clone();
        page.per_label((name, Kind::Gauge, help), &providers, "provider", label_of, |(_, provider)| value(provider));
    };
    add("model_calls", "Calls to a model provider in progress.", |provider| provider.calls);
    add("model_calls_waiting", "Calls that wait for a permit of a model provider.", |provider| provider.waiting);
    let help = "1: the circuit breaker of a model provider is open or half-open.";
    add("model_circuit_open", help, |provider| provider.circuit_open.into());
}

fn add_stores(page: &mut MetricsBuilder, servers: &[CallCounters]) {
    use Kind::{Counter, Gauge};
    let help = "Calls that were sent to a server of the stores, or of the index of passages, by kind.";
    let calls = servers.iter().flat_map(|server| server.calls.iter().map(|call| (server.server, call)));
    let family = Family::new("store_calls_total", Counter, help);
    page.0.push(calls.fold(family, |family, (server, (kind, count))| {
        family.with(vec![("server", server.to_owned()), ("kind", (*kind).to_owned())], *count)
    }));
    let mut add = |name, kind, help, value: fn(&CallCounters) -> u64| {
        page.per_label((name, kind, help), servers, "server", |server| server.server.to_owned(), value);
    };
    let help = "Calls that a server did not serve: it was unreachable, or did not answer in time.";
    add("store_calls_failed_total", Counter, help, |server| server.failed);
    let help = "Calls that were not sent, because the circuit breaker was open or too many calls were in flight.";
    add("store_calls_refused_total", Counter, help, |server| server.rejected);
    let help = "1: the circuit breaker of Redis or Qdrant is open or half-open, or no CQL server is connected.";
    add("store_circuit_open", Gauge, help, |server| server.is_open.into());
}

fn as_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
