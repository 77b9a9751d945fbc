//! The figures of `/metrics`, as Prometheus reads them. docs/operations.md says which of them to alarm on.

use std::fmt::Write as _;
use std::sync::Arc;

use folio_cluster::Membership;
use folio_documents::UnderWay;
use folio_gateway::Counts;
use folio_node::Node;
use folio_storage::{StoreHealth, Traffic};
use folio_types::Timestamp;

/// What figures are told of.
pub(crate) struct Observed {
    /// The conversations of a node.
    pub(crate) node: Option<Node>,
    /// Who lives in the cluster.
    pub(crate) membership: Option<Membership>,
    /// What a gateway counts, and its uploads under way.
    pub(crate) gateway: Option<(Counts, UnderWay)>,
    /// The stores: durable, and shared.
    pub(crate) stores: [Arc<dyn StoreHealth>; 2],
    /// When the process started.
    pub(crate) started_at: Timestamp,
}

/// What a figure is.
#[derive(Clone, Copy)]
enum Kind {
    /// What holds now.
    Gauge,
    /// What only grows while the process lives.
    Counter,
}

/// The page: of each figure one line of help, one of its kind, and one for each value.
#[derive(Default)]
struct Page(String);

impl Page {
    fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
        };
        let _ = writeln!(self.0, "# HELP folio_{name} {help}\n# TYPE folio_{name} {kind}");
    }

    /// A value; `labels` are written as they are.
    fn value(&mut self, name: &str, labels: &str, value: u64) {
        let _ = writeln!(self.0, "folio_{name}{labels} {value}");
    }

    /// A figure of one value.
    fn tell(&mut self, name: &str, kind: Kind, help: &str, value: u64) {
        self.begin(name, kind, help);
        self.value(name, "", value);
    }

    /// A figure with a value for each server.
    fn of_servers(&mut self, name: &str, kind: Kind, help: &str, servers: &[Traffic], value: fn(&Traffic) -> u64) {
        self.begin(name, kind, help);
        for traffic in servers {
            self.value(name, &format!("{{server=\"{}\"}}", traffic.server), value(traffic));
        }
    }
}

/// All that is known now.
pub(crate) fn figures(observed: &Observed) -> String {
    use Kind::{Counter, Gauge};
    let mut page = Page::default();
    page.tell("start_time_seconds", Gauge, "When the process started.", observed.started_at.as_second().unsigned_abs());
    if let Some(now) = observed.node.as_ref().map(Node::snapshot) {
        page.tell("draining", Gauge, "Whether the node takes nothing new.", now.draining.into());
        page.tell("conversations", Gauge, "Conversations in memory.", wide(now.live));
        page.tell("conversations_busy", Gauge, "Conversations in memory that have work.", wide(now.working));
        page.tell("history_bytes", Gauge, "Bytes of journals whose histories are in memory.", now.history_bytes);
        page.tell("tasks", Gauge, "Model calls, tools and store operations under way.", wide(now.tasks));
        page.tell("conversations_started_total", Counter, "Conversations that came into memory.", now.started);
        page.tell("conversations_passivated_total", Counter, "Conversations that left memory unused.", now.passivated);
        page.tell("conversations_failed_total", Counter, "Conversations that a fault stopped.", now.failed);
        page.tell("turns_started_total", Counter, "Turns that were accepted.", now.turns_started);
        page.tell("turns_completed_total", Counter, "Turns whose agent came to its end.", now.turns_completed);
        page.tell(
            "turns_failed_total",
            Counter,
            "Turns that failed; one that is resumed may fail again.",
            now.turns_failed,
        );
        let taken = "Threads that were taken over from an incarnation that is gone or gave them back.";
        page.tell("threads_taken_over_total", Counter, taken, now.taken_over);
    }
    if let Some((counts, uploads)) = &observed.gateway {
        page.tell("calls_total", Counter, "Calls of the public API that came.", counts.calls());
        page.tell("calls_refused_total", Counter, "Calls that found no place: OVERLOADED.", counts.refused());
        page.tell("connections", Gauge, "Connections of callers that are open.", counts.connections());
        let load = uploads.load();
        page.tell("uploads", Gauge, "Uploads under way.", wide(load.uploads));
        page.tell("upload_bytes", Gauge, "Bytes that uploads under way may take.", load.bytes);
    }
    if let Some(membership) = &observed.membership {
        let live = membership.live().borrow().clone();
        let draining = live.iter().filter(|member| member.node.draining).count();
        let up = "Nodes of the cluster that take work, as far as known here.";
        page.tell("nodes_up", Gauge, up, wide(live.len() - draining));
        page.tell("nodes_draining", Gauge, "Nodes of the cluster that drain, as far as known here.", wide(draining));
        page.tell("heartbeats_answered", Gauge, "Whether Redis answers this process.", membership.answers().into());
    }
    let servers: Vec<Traffic> = observed.stores.iter().filter_map(|store| store.traffic()).collect();
    if !servers.is_empty() {
        page.begin("store_calls_total", Counter, "Calls that were sent to a server of the stores, by kind.");
        for Traffic { server, calls, .. } in &servers {
            for (kind, count) in calls {
                page.value("store_calls_total", &format!("{{server=\"{server}\",kind=\"{kind}\"}}"), *count);
            }
        }
        let failed = "Calls that a server of the stores did not serve: not reached, or not answered in time.";
        page.of_servers("store_calls_failed_total", Counter, failed, &servers, |traffic| traffic.failed);
        let refused = "Calls that were not sent, because the server is sick or too many were under way.";
        page.of_servers("store_calls_refused_total", Counter, refused, &servers, |traffic| traffic.refused);
        let held = "Whether calls to a server of the stores are held back, because it is sick.";
        page.of_servers("store_held_back", Gauge, held, &servers, |traffic| traffic.held_back.into());
    }
    page.0
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
