//! CQL servers that stop for a while during approvals: every approved write is made once. While one of three servers is
//! stopped, no turn fails. Callers read continuously meanwhile, and the memory of gateways and nodes stays bounded.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::checker::{Evidence, Violation, check};
use super::log::Log;
use super::memory::{MemoryUse, measure, read_continuously, sample};
use super::refusals::Refusals;
use super::servers::Servers;
use super::settle::{TimeLimits, gather};
use super::simulated_user::{ApprovedWrite, SimulatedUser};
use super::tables::Tables;
use crate::harness::cluster::{Cluster, Setup};
use crate::harness::settings::INVOICE;

/// Script of the model: one round with a write, whose name is the user's message.
const SCRIPT: &str = "
rules:
  - when: {user: {contains: work}}
    rounds:
      - calls: [{name: create_tag, arguments: {name: '{{user}}'}}]
      - text: Worked.
";

const USERS: usize = 8;
/// Number of approvals in flight when a server stops.
const IN_FLIGHT_MIN: usize = 3;
/// Time for which the approvals continue after the stop.
const AFTER_STOP: Duration = Duration::from_secs(2);

/// A stop of one CQL server; with one server, of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The server is suspended (SIGSTOP) for this time.
    Suspended(Duration),
    /// The server is killed and restarted.
    Killed,
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    /// Number of CQL servers: 1 or 3.
    pub cql_nodes: usize,
    pub stops: Vec<Stop>,
    /// Minimum number of approvals during each stop.
    pub approvals: usize,
}

/// Approvals of all users.
#[derive(Debug, Default)]
struct Progress {
    approved: AtomicUsize,
    in_flight: AtomicUsize,
}

#[derive(Debug)]
pub struct Report {
    /// Each stop with the writes that were approved around it.
    pub stops: Vec<(Stop, Vec<ApprovedWrite>)>,
    /// Memory of the gateways and nodes during each stop.
    pub memory: Vec<(Stop, Vec<MemoryUse>)>,
    /// Approved writes without exactly one effect.
    pub lost: Vec<String>,
    pub violations: Vec<Violation>,
}

impl Report {
    pub fn failed_turns(&self) -> usize {
        self.writes().filter(|write| write.failures > 0).count()
    }

    fn writes(&self) -> impl Iterator<Item = &ApprovedWrite> {
        self.stops.iter().flat_map(|(_, writes)| writes)
    }

    /// Returns the largest growth of a gateway or node during a stop, in bytes.
    pub fn memory_growth(&self) -> u64 {
        self.memory.iter().flat_map(|(_, uses)| uses).map(MemoryUse::growth).max().unwrap_or_default()
    }

    /// Returns the longest 99th percentile of the approvals of a stop.
    pub fn p99(&self) -> Duration {
        self.stops.iter().map(|(_, writes)| percentile(writes, 0.99)).max().unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stop, writes) in &self.stops {
            let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| percentile(writes, part));
            writeln!(f, "{stop:?}: {} approvals, p50 {p50:.2?}, p99 {p99:.2?}, longest {max:.2?}", writes.len())?;
        }
        for (stop, uses) in &self.memory {
            for used in uses {
                writeln!(f, "{stop:?}: memory of {used}")?;
            }
        }
        for lost in &self.lost {
            writeln!(f, "{lost}")?;
        }
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        let (approvals, violations) = (self.writes().count(), self.violations.len() + self.lost.len());
        write!(f, "approvals {approvals}, failed turns {}, violations {violations}", self.failed_turns())
    }
}

fn percentile(writes: &[ApprovedWrite], part: f64) -> Duration {
    let mut times: Vec<_> = writes.iter().map(|write| write.approval).collect();
    times.sort_unstable();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "an index")]
    let index = ((times.len() as f64 * part).ceil() as usize).saturating_sub(1);
    times.get(index).copied().unwrap_or_default()
}

/// Runs the stops one after another, and checks the result.
pub async fn run(plan: Plan) -> Result<Report> {
    println!("FOLIO_SEED={}", plan.seed);
    let mut random = StdRng::seed_from_u64(plan.seed);
    let nodes = plan.cql_nodes;
    let mut servers = tokio::task::spawn_blocking(move || Servers::start(nodes)).await??;
    let replication_factor = if nodes >= 3 { 3 } else { 1 };
    let setup = Setup::new(SCRIPT, servers.redis.port(), servers.cql.addresses());
    let cluster = Setup { replication_factor, is_long_run: true, ..setup }.start().await;
    let tables = Tables::open(&servers.cql.addresses(), &cluster.keyspace).await?;
    let document = cluster.client(0).await.upload("invoice.txt", INVOICE.as_bytes()).await;
    let (log, refusals, mut stops, mut memory) = (Log::default(), Refusals::default(), Vec::new(), Vec::new());
    for (phase, stop) in plan.stops.iter().enumerate() {
        let (is_over, over) = watch::channel(false);
        let progress = Arc::new(Progress::default());
        let mut users = JoinSet::new();
        for number in 0..USERS {
            let random = StdRng::seed_from_u64(random.random());
            let name = format!("p{phase}-{number}");
            let user = create_user(name, &cluster, &document, &log, random, &refusals);
            users.spawn(approve_until(user, over.clone(), (Arc::clone(&progress), plan.approvals)));
        }
        folio_testkit::wait_for("approvals in flight", Duration::from_secs(60), async || {
            let approved = progress.approved.load(Ordering::Relaxed);
            let in_flight = progress.in_flight.load(Ordering::Relaxed);
            (approved >= plan.approvals / 10 && in_flight >= IN_FLIGHT_MIN).then_some(())
        })
        .await;
        println!("{stop:?}");
        let mut readers = read_continuously(&cluster, &over).await;
        let sampling = tokio::spawn(sample(measure(&cluster)?, over.clone()));
        let (stop, target) = (*stop, random.random_range(0..nodes));
        servers = tokio::task::spawn_blocking(move || stop_server(servers, target, stop)).await??;
        // The approvals continue during the sleep.
        tokio::time::sleep(AFTER_STOP).await;
        is_over.send_replace(true);
        stops.push((stop, users.join_all().await.concat()));
        while readers.join_next().await.transpose()?.is_some() {}
        memory.push((stop, sampling.await??));
    }
    let limits = TimeLimits { stuck: Duration::from_secs(15), total: Duration::from_secs(60) };
    let evidence = gather(&cluster, &tables, &log, limits).await?;
    println!("errors: {:?}", refusals.all());
    let writes = stops.iter().flat_map(|(_, writes)| writes);
    let lost = writes.filter_map(|write| lost(write, &evidence)).collect();
    Ok(Report { stops, memory, lost, violations: check(&evidence) })
}

fn create_user(
    name: String,
    cluster: &Cluster,
    document: &str,
    log: &Log,
    random: StdRng,
    refusals: &Refusals,
) -> SimulatedUser {
    let (tenant, document) = (cluster.tenants[0].clone(), document.to_owned());
    let gateways = cluster.gateways.iter().map(|gateway| gateway.listener_proxy.address()).collect();
    SimulatedUser::new(name, tenant, document, gateways, log.clone(), random, refusals.clone())
}

/// Approves writes until the stop is over and all users together have approved enough.
async fn approve_until(
    mut user: SimulatedUser,
    over: watch::Receiver<bool>,
    (progress, enough): (Arc<Progress>, usize),
) -> Vec<ApprovedWrite> {
    let mut writes = Vec::new();
    while !*over.borrow() || progress.approved.load(Ordering::Relaxed) < enough {
        writes.push(user.approve_write(writes.len(), &progress.in_flight).await);
        progress.approved.fetch_add(1, Ordering::Relaxed);
    }
    writes
}

fn stop_server(mut servers: Servers, target: usize, stop: Stop) -> Result<Servers> {
    let since = Instant::now();
    match stop {
        Stop::Killed => servers.restart_cql(target, Duration::from_secs(2))?,
        Stop::Suspended(time) => {
            let node = servers.cql(target)?;
            node.pause()?;
            // The sleep is the duration of the fault.
            std::thread::sleep(time);
            node.resume()?;
        }
    }
    println!("over after {:.1?}", since.elapsed());
    Ok(servers)
}

/// Returns a text if the write does not have exactly one effect.
fn lost(write: &ApprovedWrite, evidence: &Evidence) -> Option<String> {
    let is_effect = |name: &Option<String>| name.as_deref() == Some(write.name.as_str());
    let effects =
        evidence.aggregates.iter().filter(|aggregate| aggregate.is_live && is_effect(&aggregate.name)).count();
    (effects != 1).then(|| format!("the approved write {:?} of {} has {effects} effects", write.name, write.turn))
}
