//! Resident memory of the processes of a cluster while its stores do not answer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use folio_proto::v1;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::process::resident_bytes;

/// Interval between two samples.
const INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which reads start at each gateway.
const READ_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of reads at each gateway during a fault. Reads that fail at once would otherwise use the CPU.
const READS_MAX: usize = 10_000;
const MEBIBYTE: u64 = 1024 * 1024;

/// The resident memory of a process during a fault, in bytes.
#[derive(Debug, Clone)]
pub struct MemoryUse {
    process: String,
    id: u32,
    before: u64,
    largest: u64,
}

impl MemoryUse {
    pub fn growth(&self) -> u64 {
        self.largest.saturating_sub(self.before)
    }
}

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, largest] = [self.before, self.largest].map(|bytes| bytes / MEBIBYTE);
        write!(f, "{}: {before} MiB before, at most {largest} MiB", self.process)
    }
}

/// Returns the current memory of every gateway and node.
pub fn measure(cluster: &Cluster) -> Result<Vec<MemoryUse>> {
    let named = |kind: &'static str, number: usize, id: u32| (format!("{kind} {number}"), id);
    let gateways = cluster.gateways.iter().enumerate().map(|(at, member)| named("gateway", at, member.process().id()));
    let nodes = cluster.nodes.iter().enumerate().map(|(at, member)| named("node", at, member.process().id()));
    gateways
        .chain(nodes)
        .map(|(process, id)| {
            let bytes = resident_bytes(id)?;
            Ok(MemoryUse { process, id, before: bytes, largest: bytes })
        })
        .collect()
}

/// Samples the memory of processes until the fault is over.
pub async fn sample(mut uses: Vec<MemoryUse>, mut over: watch::Receiver<bool>) -> Result<Vec<MemoryUse>> {
    while !*over.borrow_and_update() {
        for used in &mut uses {
            used.largest = used.largest.max(resident_bytes(used.id)?);
        }
        let _ = tokio::time::timeout(INTERVAL, over.changed()).await;
    }
    Ok(uses)
}

/// Load of reads on each gateway.
#[derive(Debug, Clone, Copy)]
pub struct ReadLoad {
    connections: usize,
    in_flight_max: usize,
    /// Number of reads that start at each interval.
    per_interval: usize,
}

impl ReadLoad {
    /// Few reads, which do not delay the approvals whose latency is measured.
    pub const LOW: Self = Self { connections: 1, in_flight_max: 256, per_interval: 1 };
    /// Reads that exceed every bound on requests in progress while no server answers.
    pub const HIGH: Self = Self { connections: 25, in_flight_max: 1_000, per_interval: 40 };
}

/// Reads from gateways and nodes until the fault is over, as the tenant with this number. Reads start at a constant rate,
/// so that they accumulate while the stores do not answer. Each task returns the largest number of reads in flight at its
/// gateway.
pub async fn read_continuously(
    cluster: &Cluster,
    tenant: usize,
    load: ReadLoad,
    over: &watch::Receiver<bool>,
) -> JoinSet<usize> {
    let mut readers = JoinSet::new();
    for gateway in 0..cluster.gateways.len() {
        let mut clients = Vec::new();
        for _ in 0..load.connections {
            clients.push(Arc::new(cluster.client_of(gateway, tenant).await));
        }
        let mut over = over.clone();
        readers.spawn(async move {
            let (mut in_flight, mut most, mut ticks) = (JoinSet::new(), 0, tokio::time::interval(READ_INTERVAL));
            let mut next = clients.iter().cycle().take(READS_MAX);
            while tokio::select! { _ = ticks.tick() => true, _ = over.wait_for(|over| *over) => false } {
                while in_flight.try_join_next().is_some() {}
                let free = load.in_flight_max - in_flight.len();
                for client in next.by_ref().take(load.per_interval.min(free)) {
                    in_flight.spawn(read(Arc::clone(client)));
                }
                most = most.max(in_flight.len());
            }
            most
        });
    }
    readers
}

/// Reads the tags at the gateway, and a missing turn at a node. Failures are expected.
async fn read(client: Arc<Client>) {
    let _ = client.tags.clone().list_tags(v1::ListTagsRequest::default()).await;
    let turn = v1::GetTurnRequest { turn_id: format!("thr_{}.1", "0".repeat(32)) };
    let _ = client.conversations.clone().get_turn(turn).await;
}
