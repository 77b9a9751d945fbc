//! Memory of the processes of a cluster while its stores do not answer, and the load of reads meanwhile.
//!
//! The memory is that without the mapped parts of files, because the kernel loads and drops pages of the program.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use folio_proto::v1;
use folio_types::{ThreadId, TurnId};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::{Code, Status};

use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::process::anonymous_bytes;
use crate::harness::tenant::Tenant;

/// Interval between two samples.
const INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which calls start at each gateway.
const START_INTERVAL: Duration = Duration::from_millis(20);
/// Number of connections of a user to each gateway.
const CONNECTIONS: usize = 2;
const MEBIBYTE: u64 = 1024 * 1024;

/// The memory of a process during a fault, in bytes.
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
            let bytes = anonymous_bytes(id)?;
            Ok(MemoryUse { process, id, before: bytes, largest: bytes })
        })
        .collect()
}

/// Samples the memory of processes until the fault is over.
pub async fn sample(mut uses: Vec<MemoryUse>, mut over: watch::Receiver<bool>) -> Result<Vec<MemoryUse>> {
    while !*over.borrow_and_update() {
        for used in &mut uses {
            used.largest = used.largest.max(anonymous_bytes(used.id)?);
        }
        let _ = tokio::time::timeout(INTERVAL, over.changed()).await;
    }
    Ok(uses)
}

/// The calls of each connection, in the order in which they start.
const CALLS: [Call; 5] = [Call::ListTags, Call::GetTurn, Call::ListTags, Call::WatchTurn, Call::GetTurn];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// The gateway reads the tags.
    ListTags,
    /// A node reads the turn.
    GetTurn,
    /// A node sends the events. The call counts against the bounds of long calls, the others against those of short calls.
    WatchTurn,
}

/// Load on each gateway.
#[derive(Debug, Clone, Copy)]
pub struct ReadLoad {
    /// Maximum number of users that send calls.
    users: usize,
    /// Number of calls that start at each interval, unless too many are in flight.
    per_interval: usize,
    reads_max: usize,
    watches_max: usize,
}

impl ReadLoad {
    /// Few reads, which do not delay the approvals whose latency is measured.
    pub const LOW: Self = Self { users: 1, per_interval: 1, reads_max: 256, watches_max: 0 };
    /// Calls of several organizations that exceed every bound on short calls while no server answers: those of a user, of an
    /// organization and of the gateway (`gateway.short_calls`, 1,024).
    pub const HIGH: Self = Self { users: 8, per_interval: 25, reads_max: 1_280, watches_max: 256 };
}

/// Largest numbers of calls of a gateway in flight at the same time, without those that a bound refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InFlight {
    pub reads: usize,
    pub watches: usize,
}

impl InFlight {
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { reads: self.reads.max(other.reads), watches: self.watches.max(other.watches) }
    }
}

/// Calls gateways and nodes until the fault is over. Calls start at a constant rate, so that they accumulate while the
/// stores do not answer. Each task returns the calls in flight at its gateway.
pub async fn read_continuously(
    cluster: &Cluster,
    readers: &[Tenant],
    load: ReadLoad,
    over: &watch::Receiver<bool>,
) -> JoinSet<InFlight> {
    let mut connected = Vec::new();
    for gateway in &cluster.gateways {
        let (url, mut clients) = (format!("http://{}", gateway.listener_proxy.address()), Vec::new());
        for reader in readers.iter().take(load.users) {
            for _ in 0..CONNECTIONS {
                let client = Client::connect(&url, Some(&reader.token)).await;
                // The gateway knows the token before the calls of the load, so that it does not bound their verification.
                call(&client, Call::ListTags, String::new()).await;
                clients.push(Arc::new(client));
            }
        }
        connected.push(clients);
    }
    let mut gateways = JoinSet::new();
    for (gateway, clients) in connected.into_iter().enumerate() {
        gateways.spawn(read_at_gateway(gateway, clients, load, over.clone()));
    }
    gateways
}

async fn read_at_gateway(
    gateway: usize,
    clients: Vec<Arc<Client>>,
    load: ReadLoad,
    mut over: watch::Receiver<bool>,
) -> InFlight {
    let (mut reads, mut watches, mut ticks) =
        (Calls::default(), Calls::default(), tokio::time::interval(START_INTERVAL));
    let mut number = 0;
    while tokio::select! { _ = ticks.tick() => true, _ = over.wait_for(|over| *over) => false } {
        reads.collect();
        watches.collect();
        for _ in 0..load.per_interval {
            let (client, kind) = (&clients[number % clients.len()], CALLS[number / clients.len() % CALLS.len()]);
            let (calls, most) = match kind {
                Call::WatchTurn => (&mut watches, load.watches_max),
                Call::ListTags | Call::GetTurn => (&mut reads, load.reads_max),
            };
            if calls.in_flight.len() < most {
                // A node that loads a thread for one call would answer all calls on this thread together.
                let thread = ThreadId::derive(&["missing", &gateway.to_string(), &number.to_string()]);
                let (client, turn) = (Arc::clone(client), TurnId::new(thread, 1).to_string());
                calls.in_flight.spawn(async move { call(&client, kind, turn).await });
            }
            number += 1;
        }
    }
    InFlight { reads: most_at_once(&reads.ended), watches: most_at_once(&watches.ended) }
}

/// Calls of one class at a gateway.
#[derive(Default)]
struct Calls {
    in_flight: JoinSet<Option<Range<Instant>>>,
    /// Begin and end of each call that no bound refused.
    ended: Vec<Range<Instant>>,
}

impl Calls {
    fn collect(&mut self) {
        while let Some(ended) = self.in_flight.try_join_next() {
            self.ended.extend(ended.expect("a call does not panic"));
        }
    }
}

/// Makes a call. Returns its begin and end. None: a bound refused it. Other failures are expected.
async fn call(client: &Client, kind: Call, turn_id: String) -> Option<Range<Instant>> {
    let begun = Instant::now();
    let answer = match kind {
        Call::ListTags => client.tags.clone().list_tags(v1::ListTagsRequest::default()).await.map(drop),
        Call::GetTurn => client.conversations.clone().get_turn(v1::GetTurnRequest { turn_id }).await.map(drop),
        Call::WatchTurn => watch_to_end(client, turn_id).await,
    };
    let is_refused = answer.is_err_and(|status| status.code() == Code::ResourceExhausted);
    (!is_refused).then(|| begun..Instant::now())
}

async fn watch_to_end(client: &Client, turn_id: String) -> Result<(), Status> {
    let request = v1::WatchTurnRequest { turn_id, from_event: 0 };
    let mut events = client.conversations.clone().watch_turn(request).await?.into_inner();
    while events.message().await?.is_some() {}
    Ok(())
}

/// Returns the largest number of calls that were in flight at the same time.
fn most_at_once(calls: &[Range<Instant>]) -> usize {
    // At one instant, ends precede begins.
    let mut changes: Vec<(Instant, bool)> =
        calls.iter().flat_map(|call| [(call.start, true), (call.end, false)]).collect();
    changes.sort_unstable();
    let (mut in_flight, mut most) = (0_usize, 0);
    for (_, begins) in changes {
        in_flight = if begins { in_flight + 1 } else { in_flight.saturating_sub(1) };
        most = most.max(in_flight);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_number_of_calls_in_flight_counts_overlapping_calls() {
        let begun = Instant::now();
        let calls = |times: &[(u64, u64)]| {
            let at = |second| begun + Duration::from_secs(second);
            times.iter().map(|(start, end)| at(*start)..at(*end)).collect::<Vec<_>>()
        };
        assert_eq!(most_at_once(&[]), 0);
        assert_eq!(most_at_once(&calls(&[(0, 1), (1, 2), (2, 3)])), 1, "one call after another");
        assert_eq!(most_at_once(&calls(&[(0, 9), (1, 3), (2, 5), (4, 6), (7, 8)])), 3);
    }
}
