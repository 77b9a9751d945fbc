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
/// Maximum number of reads in flight at each gateway.
const READS_MAX: usize = 256;
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

/// Reads from gateways and nodes until the fault is over. Reads start at a constant rate, so that they accumulate while
/// the stores do not answer.
pub async fn read_continuously(cluster: &Cluster, over: &watch::Receiver<bool>) -> JoinSet<()> {
    let mut readers = JoinSet::new();
    for gateway in 0..cluster.gateways.len() {
        let (client, mut over) = (Arc::new(cluster.client(gateway).await), over.clone());
        readers.spawn(async move {
            let (mut in_flight, mut ticks) = (JoinSet::new(), tokio::time::interval(READ_INTERVAL));
            let reads = async {
                loop {
                    ticks.tick().await;
                    while in_flight.try_join_next().is_some() {}
                    if in_flight.len() < READS_MAX {
                        in_flight.spawn(read(Arc::clone(&client)));
                    }
                }
            };
            tokio::select! {
                () = reads => {}
                _ = over.wait_for(|over| *over) => {}
            }
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
