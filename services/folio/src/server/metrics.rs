//! The metrics of a process, for `/metrics` and the collector. docs/observability.md lists the metrics, and
//! docs/operations.md the alerts.

use std::collections::BTreeMap;
use std::sync::Arc;

use folio_breaker::BreakerState;
use folio_cluster::Membership;
use folio_documents::{ActiveUploads, IngestHandle};
use folio_gateway::Counters;
use folio_llm::EndpointStatus;
use folio_node::Node;
use folio_process::metrics::{Family, Kind};
use folio_process::telemetry::span_metrics::SpanMetrics;
use folio_providers::Providers;
use folio_storage::{CallCounters, StoreHealth};
use folio_types::Timestamp;

pub(crate) struct Observed {
    /// The node. None: the process is only a gateway.
    pub(crate) node: Option<Node>,
    /// The load of ingestion. None: the process is only a gateway.
    pub(crate) ingest: Option<IngestHandle>,
    /// None: the process is not part of a cluster.
    pub(crate) membership: Option<Membership>,
    /// Counters and active uploads of a gateway.
    pub(crate) gateway: Option<(Counters, ActiveUploads)>,
    /// The durable and the shared stores.
    pub(crate) stores: [Arc<dyn StoreHealth>; 2],
    pub(crate) models: Arc<Providers>,
    pub(crate) credit: folio_metering::Counters,
    /// Histograms of span durations. None: telemetry is not running.
    pub(crate) measured: Option<Arc<SpanMetrics>>,
    /// Start time of the process.
    pub(crate) started_at: Timestamp,
}

#[derive(Default)]
struct Page(Vec<Family>);

impl Page {
    /// Adds a metric with one value.
    fn value(&mut self, name: &str, kind: Kind, help: &'static str, value: u64) {
        self.0.push(Family::new(name, kind, help).with(Vec::new(), value));
    }

    /// Adds a metric with one value per label.
    fn of_each<T>(
        &mut self,
        (name, kind, help): (&str, Kind, &'static str),
        each: &[T],
        label: &'static str,
        called: impl Fn(&T) -> String,
        value: impl Fn(&T) -> u64,
    ) {
        let all = each
            .iter()
            .fold(Family::new(name, kind, help), |family, one| family.with(vec![(label, called(one))], value(one)));
        self.0.push(all);
    }
}

pub(crate) fn metrics(observed: &Observed) -> Vec<Family> {
    use Kind::{Counter, Gauge};
    let mut page = Page::default();
    page.value(
        "start_time_seconds",
        Gauge,
        "Start time of the process, in seconds since the Unix epoch.",
        observed.started_at.as_second().unsigned_abs(),
    );
    if let Some(now) = observed.node.as_ref().map(Node::snapshot) {
        page.value("draining", Gauge, "Whether the node accepts no new work.", now.draining.into());
        page.value("conversations", Gauge, "Conversations in memory.", wide(now.live));
        page.value("conversations_busy", Gauge, "Conversations in memory with work in progress.", wide(now.working));
        page.value("history_bytes", Gauge, "Bytes of journals whose histories are in memory.", now.history_bytes);
        page.value("tasks", Gauge, "Model calls, tools and store operations in progress.", wide(now.tasks));
        page.value("chats_queued", Gauge, "Chats that wait in the queue of a running turn.", wide(now.queued));
        page.value(
            "requests",
            Gauge,
            "Requests to conversations that were admitted and not answered.",
            wide(now.in_flight),
        );
        page.value("watchers", Gauge, "Streams that follow turns.", wide(now.watchers));
        page.value("conversations_started_total", Counter, "Conversations that were loaded.", now.started);
        page.value(
            "conversations_passivated_total",
            Counter,
            "Idle conversations that were removed from memory.",
            now.passivated,
        );
        page.value("conversations_failed_total", Counter, "Conversations that an error stopped.", now.failed);
        page.value("turns_started_total", Counter, "Turns that were accepted.", now.turns_started);
        page.value("turns_completed_total", Counter, "Turns that were completed.", now.turns_completed);
        page.value(
            "turns_failed_total",
            Counter,
            "Turns that failed; a resumed turn may fail again.",
            now.turns_failed,
        );
        let taken = "Threads that were taken over from a dead or draining incarnation.";
        page.value("threads_taken_over_total", Counter, taken, now.taken_over);
    }
    if let Some(to_read) = observed.ingest.as_ref().map(IngestHandle::load) {
        page.value("documents_reading", Gauge, "Documents that this node reads now.", to_read.reading);
        let waiting = "Documents in the queue that no node reads yet, at the last count.";
        page.value("documents_waiting", Gauge, waiting, to_read.waiting);
    }
    if let Some((counts, uploads)) = &observed.gateway {
        page.value("calls_total", Counter, "Calls of the public API.", counts.calls());
        page.value(
            "calls_refused_total",
            Counter,
            "Calls that were refused because no permit was free: OVERLOADED.",
            counts.refused(),
        );
        page.value("connections", Gauge, "Open connections of callers.", counts.connections());
        let load = uploads.load();
        page.value("uploads", Gauge, "Uploads in progress.", wide(load.permits));
        page.value("upload_bytes", Gauge, "Reserved bytes of uploads in progress.", load.bytes);
    }
    if let Some(membership) = &observed.membership {
        let live = membership.live().borrow().clone();
        let draining = live.iter().filter(|member| member.node.draining).count();
        let up = "Live nodes that accept work, in the membership view of this process.";
        page.value("nodes_up", Gauge, up, wide(live.len() - draining));
        page.value(
            "nodes_draining",
            Gauge,
            "Live nodes that drain, in the membership view of this process.",
            wide(draining),
        );
        page.value("heartbeats_answered", Gauge, "Whether Redis answers this process.", membership.answers().into());
    }
    of_credit(&mut page, &observed.credit);
    of_models(&mut page, observed.models.endpoints());
    let servers: Vec<CallCounters> = observed.stores.iter().filter_map(|store| store.call_counters()).collect();
    of_stores(&mut page, &servers);
    page.0.extend(observed.measured.iter().flat_map(|measured| measured.families()));
    page.0
}

fn of_credit(page: &mut Page, credit: &folio_metering::Counters) {
    page.value("spu_reserved", Kind::Gauge, "Credits reserved for model calls in progress.", credit.reserved());
    page.value("spu_used_total", Kind::Counter, "Credits used by model calls of this process.", credit.used());
    let refused = "Model calls that were refused because an organization's credit was exhausted.";
    page.value("spu_refused_total", Kind::Counter, refused, credit.refused());
    let late = "Model calls that were settled after their reservation had expired.";
    page.value("spu_settled_late_total", Kind::Counter, late, credit.settled_late());
}

/// The sum over the endpoints of a provider. Organizations may call it with their own keys, which are separate
/// endpoints.
#[derive(Default)]
struct OfProvider {
    calls: u64,
    waiting: u64,
    circuit_open: bool,
}

fn of_models(page: &mut Page, endpoints: Vec<EndpointStatus>) {
    let mut providers: BTreeMap<String, OfProvider> = BTreeMap::new();
    for endpoint in endpoints {
        let provider = providers.entry(endpoint.name).or_default();
        provider.calls += wide(endpoint.calls);
        provider.waiting += wide(endpoint.waiting);
        provider.circuit_open |= !matches!(endpoint.breaker, BreakerState::Closed { .. });
    }
    let each: Vec<(String, OfProvider)> = providers.into_iter().collect();
    let name = |(name, _): &(String, OfProvider)| name.clone();
    let in_flight = ("model_calls", Kind::Gauge, "Calls to a model provider in progress.");
    page.of_each(in_flight, &each, "provider", name, |(_, provider)| provider.calls);
    let waiting = ("model_calls_waiting", Kind::Gauge, "Calls that wait for a permit of a model provider.");
    page.of_each(waiting, &each, "provider", name, |(_, provider)| provider.waiting);
    let circuit_open_help = "1: the circuit breaker of a model provider is open or half-open.";
    page.of_each(("model_circuit_open", Kind::Gauge, circuit_open_help), &each, "provider", name, |(_, provider)| {
        provider.circuit_open.into()
    });
}

fn of_stores(page: &mut Page, servers: &[CallCounters]) {
    use Kind::{Counter, Gauge};
    let sent = "Calls that were sent to a server of the stores, by kind.";
    let calls =
        servers.iter().flat_map(|call_counters| call_counters.calls.iter().map(|call| (call_counters.server, call)));
    page.0.push(calls.fold(Family::new("store_calls_total", Counter, sent), |family, (server, (kind, count))| {
        family.with(vec![("server", server.to_owned()), ("kind", (*kind).to_owned())], *count)
    }));
    let name = |call_counters: &CallCounters| call_counters.server.to_owned();
    let failed = "Calls that a server of the stores did not serve: it was unreachable, or did not answer in time.";
    page.of_each(("store_calls_failed_total", Counter, failed), servers, "server", name, |call_counters| {
        call_counters.failed
    });
    let refused = "Calls that were not sent, because the circuit breaker was open or too many calls were in flight.";
    page.of_each(("store_calls_refused_total", Counter, refused), servers, "server", name, |call_counters| {
        call_counters.refused
    });
    let circuit_open_help = "1: the circuit breaker of a server of the stores is open or half-open.";
    page.of_each(("store_circuit_open", Gauge, circuit_open_help), servers, "server", name, |call_counters| {
        call_counters.is_open.into()
    });
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
