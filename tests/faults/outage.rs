//! Stops CQL servers while users approve writes and other callers read continuously. The tests that use it check that
//! every approved write takes effect exactly once, that no turn fails while one of three servers is stopped, and that the
//! memory of gateways and nodes stays bounded.
//!
//! The latencies are those of approvals that overlap a stop. The fast approvals before and after a stop would hide slow
//! ones in a percentile.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use folio_proto::v1;
use folio_types::CallId;
use folio_types::op::{OpKey, OpState};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::checker::{Evidence, Violation, check};
use super::log::Log;
use super::memory::{InFlight, MemoryUse, ReadLoad, measure, read_continuously, sample};
use super::refusals::Refusals;
use super::servers::Servers;
use super::settle::{TimeLimits, gather};
use super::simulated_user::{ApprovedWrite, SimulatedUser};
use super::tables::Tables;
use crate::harness::cluster::{Cluster, HeartbeatTimes, NO_HUGE_PAGES, Setup};
use crate::harness::migrations::migrate_at_once;
use crate::harness::settings::INVOICE;
use crate::harness::tenant::Tenant;

/// Script of the model: one round that creates a tag whose name is the user's message.
const SCRIPT: &str = "
rules:
  - when: {user: {contains: work}}
    rounds:
      - calls: [{name: create_tag, arguments: {name: '{{user}}'}}]
      - text: Worked.
";

const USERS: usize = 8;
/// Minimum number of approvals for a 99th percentile of one stop: with fewer, it is the longest approval.
const PERCENTILE_MIN: usize = 100;
/// Markers of the tenants. The first one approves. The others read with two users each: a user and an organization have a part of
/// the permits of a gateway, so that several of them are needed to use all permits.
const MARKERS: [&str; 5] = ["alpha", "bravo", "charlie", "delta", "echo"];
/// Minimum number of approvals in flight when a server stops.
pub const IN_FLIGHT_MIN: usize = 3;
/// Times of heartbeats. No node dies, and a node that a busy machine delays for a few seconds must not count as dead, because its
/// turns would fail.
const HEARTBEAT_TIMES: HeartbeatTimes =
    HeartbeatTimes { dead_after: Duration::from_secs(30), ..HeartbeatTimes::DEFAULT };
/// Time for which approvals continue after a stop.
const AFTER_STOP: Duration = Duration::from_secs(2);

/// A stop of one CQL server. If [`Plan::cql_nodes`] is 1, no other server runs meanwhile.
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
    /// Minimum number of approvals before, during and after each stop together.
    pub approvals: usize,
    /// Number of empty keyspaces that processes migrate at once before the first stop.
    pub migrations: usize,
}

/// Numbers of the approvals of all users during one stop.
#[derive(Debug, Default)]
struct Progress {
    approved: AtomicUsize,
    in_flight: AtomicUsize,
}

/// A stop with the writes that were approved before, during and after it.
#[derive(Debug)]
pub struct StopResult {
    pub stop: Stop,
    /// Begin and end of the stop.
    pub time: Range<Instant>,
    pub writes: Vec<ApprovedWrite>,
    /// Memory of the gateways and nodes during the stop.
    pub memory: Vec<MemoryUse>,
    /// The largest numbers of calls of the readers in flight at a gateway.
    pub in_flight: InFlight,
}

impl StopResult {
    /// Returns the latencies of the approvals that were in flight during the stop, in ascending order.
    fn latencies(&self) -> Vec<Duration> {
        let approvals = self.writes.iter().filter_map(|write| write.approval.as_ref());
        let overlapping = approvals.filter(|approval| approval.start < self.time.end && self.time.start < approval.end);
        let mut latencies: Vec<_> = overlapping.map(|approval| approval.end - approval.start).collect();
        latencies.sort_unstable();
        latencies
    }
}

/// Returns a percentile of latencies in ascending order.
fn percentile(latencies: &[Duration], part: f64) -> Duration {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "an index")]
    let index = ((latencies.len() as f64 * part).ceil() as usize).saturating_sub(1);
    latencies.get(index).copied().unwrap_or_default()
}

#[derive(Debug)]
pub struct Report {
    pub stops: Vec<StopResult>,
    /// Turns that did not complete, approved writes without exactly one effect, and errors that only a defect explains.
    pub lost: Vec<String>,
    pub violations: Vec<Violation>,
}

impl Report {
    /// Returns the number of turns that failed, also if they completed after a resumption, or ended in another way.
    pub fn failed_turns(&self) -> usize {
        let is_failed = |write: &&ApprovedWrite| write.failures > 0 || write.end != v1::TurnStatus::Completed;
        self.writes().filter(is_failed).count()
    }

    fn writes(&self) -> impl Iterator<Item = &ApprovedWrite> {
        self.stops.iter().flat_map(|stop| &stop.writes)
    }

    /// Returns the number of approvals that overlapped a stop, for the stop with the fewest.
    pub fn overlapping(&self) -> usize {
        self.stops.iter().map(|stop| stop.latencies().len()).min().unwrap_or_default()
    }

    /// Returns the largest growth of the memory of a gateway or node during a stop, in bytes.
    pub fn memory_growth(&self) -> u64 {
        self.stops.iter().flat_map(|stop| &stop.memory).map(MemoryUse::growth).max().unwrap_or_default()
    }

    /// Returns the largest numbers of calls of the readers in flight at a gateway during a stop.
    pub fn in_flight(&self) -> InFlight {
        self.stops.iter().fold(InFlight::default(), |most, stop| most.max(stop.in_flight))
    }

    /// Returns the 99th percentile of the latencies of the approvals that overlapped a stop: of all stops together, or of a stop
    /// with [`PERCENTILE_MIN`] such approvals, whichever is slowest.
    pub fn p99(&self) -> Duration {
        let of_stops: Vec<_> = self.stops.iter().map(StopResult::latencies).collect();
        let mut all = of_stops.concat();
        all.sort_unstable();
        let many = of_stops.iter().filter(|latencies| latencies.len() >= PERCENTILE_MIN);
        many.chain([&all]).map(|latencies| percentile(latencies, 0.99)).max().unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for result in &self.stops {
            let (stop, approvals, latencies) = (result.stop, result.writes.len(), result.latencies());
            let overlapping = latencies.len();
            let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| percentile(&latencies, part));
            writeln!(
                f,
                "{stop:?}: {approvals} approvals, {overlapping} of them during the stop: p50 {p50:.2?}, p99 {p99:.2?}, \
                 longest {max:.2?}"
            )?;
            for used in &result.memory {
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

/// Runs the stops one after another, and checks the result.
pub async fn run(plan: Plan) -> Result<Report> {
    println!("FOLIO_SEED={}", plan.seed);
    let mut random = StdRng::seed_from_u64(plan.seed);
    let nodes = plan.cql_nodes;
    let mut servers = tokio::task::spawn_blocking(move || Servers::start(nodes)).await??;
    let replication_factor = if nodes >= 3 { 3 } else { 1 };
    let folder = tempfile::tempdir()?;
    migrate_at_once(folder.path(), &servers.redis.url(), &servers.cql.addresses(), plan.migrations).await?;
    let setup = Setup::new(SCRIPT, servers.redis.port(), servers.cql.addresses());
    let (heartbeat_times, markers) = (HEARTBEAT_TIMES, MARKERS.to_vec());
    let setup = Setup { replication_factor, heartbeat_times, is_long_run: true, markers, ..setup };
    let (variable, value) = NO_HUGE_PAGES;
    let cluster = setup.with(variable, value).start().await;
    let readers = create_readers(&cluster).await;
    let tables = Tables::open(&servers.cql.addresses(), &cluster.keyspace).await?;
    let document = cluster.client(0).await.upload_first("invoice.txt", INVOICE.as_bytes()).await;
    let (log, refusals, mut stops) = (Log::default(), Refusals::default(), Vec::new());
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
        wait_for_approvals(&progress, plan.approvals / 10).await;
        println!("{stop:?}");
        // If the only server stops, a high load must not accumulate calls without a bound. If other servers run, a low load
        // does not delay the approvals.
        let load = if nodes == 1 { ReadLoad::HIGH } else { ReadLoad::LOW };
        let sampling = tokio::spawn(sample(measure(&cluster)?, over.clone()));
        let mut calls = read_continuously(&cluster, &readers, load, &over).await;
        // The approvals that were in flight may have ended while the reads started.
        let since = wait_for_approvals(&progress, 0).await;
        let (stop, target) = (*stop, random.random_range(0..nodes));
        let time;
        (servers, time) = tokio::task::spawn_blocking(move || stop_server(servers, (target, stop), since)).await??;
        // The approvals continue during the sleep.
        tokio::time::sleep(AFTER_STOP).await;
        is_over.send_replace(true);
        let writes = users.join_all().await.concat();
        let mut in_flight = InFlight::default();
        while let Some(of_gateway) = calls.join_next().await.transpose()? {
            println!("at most {} reads and {} watches in flight at a gateway", of_gateway.reads, of_gateway.watches);
            in_flight = in_flight.max(of_gateway);
        }
        stops.push(StopResult { stop, time, writes, memory: sampling.await??, in_flight });
    }
    let evidence = gather(&cluster, &tables, &log, TimeLimits::AFTER_FAULTS).await?;
    println!("errors: {:?}", refusals.all());
    let writes = stops.iter().flat_map(|stop| &stop.writes);
    let mut lost: Vec<_> = writes.filter_map(|write| lost(write, &evidence)).collect();
    lost.extend(refusals.faults());
    Ok(Report { stops, lost, violations: check(&evidence) })
}

/// Waits until `approved` approvals have ended and [`IN_FLIGHT_MIN`] others are in flight. Returns a time at which these
/// others had not ended.
async fn wait_for_approvals(progress: &Progress, approved: usize) -> Instant {
    folio_testkit::wait_for("approvals in flight", Duration::from_secs(60), async || {
        let at = Instant::now();
        let in_flight = progress.in_flight.load(Ordering::Relaxed);
        (progress.approved.load(Ordering::Relaxed) >= approved && in_flight >= IN_FLIGHT_MIN).then_some(at)
    })
    .await
}

/// Returns two users of each tenant except the first one.
async fn create_readers(cluster: &Cluster) -> Vec<Tenant> {
    let tenants = &cluster.tenants[1..];
    let mut readers = tenants.to_vec();
    for tenant in tenants {
        readers.push(tenant.with_second_user(cluster.stores()).await);
    }
    readers
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

/// Approves writes until the stop is over and all users together have made `approvals_min` approvals.
async fn approve_until(
    mut user: SimulatedUser,
    over: watch::Receiver<bool>,
    (progress, approvals_min): (Arc<Progress>, usize),
) -> Vec<ApprovedWrite> {
    let mut writes = Vec::new();
    while !*over.borrow() || progress.approved.load(Ordering::Relaxed) < approvals_min {
        writes.push(user.approve_write(writes.len(), &progress.in_flight).await);
        progress.approved.fetch_add(1, Ordering::Relaxed);
    }
    writes
}

/// Stops a server and starts it again. Returns the servers, and the begin and end of the stop. `since`: the begin, at which enough
/// approvals were in flight. On a busy machine, some of them may end before the server is stopped.
fn stop_server(
    mut servers: Servers,
    (target, stop): (usize, Stop),
    since: Instant,
) -> Result<(Servers, Range<Instant>)> {
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
    println!("the stop ended after {:.1?}", since.elapsed());
    Ok((servers, since..Instant::now()))
}

/// Returns a description of the defect if the turn of the write did not complete, or if the write does not have exactly
/// one tag, one op row and one audit entry.
fn lost(write: &ApprovedWrite, evidence: &Evidence) -> Option<String> {
    let is_of_turn = |call: &CallId| call.turn == write.turn;
    let tags = evidence
        .aggregates
        .iter()
        .filter(|one| one.is_live && one.name.as_deref().is_some_and(|name| is_named(name, write)));
    let rows = evidence.aggregates.iter().flat_map(|aggregate| &aggregate.ops).filter(|row| {
        matches!(&row.op, OpKey::Call(call) if is_of_turn(call)) && matches!(row.state, OpState::Done(_))
    });
    let effects = evidence
        .audit
        .iter()
        .flatten()
        .filter(|entry| entry.kind == "call_effect" && entry.ok && entry.call.as_ref().is_some_and(is_of_turn));
    let found = (tags.count(), rows.count(), effects.count());
    let (name, turn, end) = (&write.name, &write.turn, write.end);
    (found != (1, 1, 1) || end != v1::TurnStatus::Completed).then(|| {
        let (tags, rows, effects) = found;
        format!(
            "the approved write {name:?} of {turn} ({end:?}) has {tags} tags, {rows} op rows, {effects} audit entries"
        )
    })
}

/// Returns true for the name of the write and for a variant of it, such as the name with a suffix.
fn is_named(name: &str, write: &ApprovedWrite) -> bool {
    name.strip_prefix(&write.name).is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use folio_types::op::{OpResult, OpRow};
    use folio_types::{Digest, ThreadId, Timestamp, TurnId};

    use super::super::checker::{ObservedAggregate, ObservedAuditEntry};
    use super::*;

    fn write(number: usize, approval: Option<Range<Instant>>) -> ApprovedWrite {
        ApprovedWrite {
            turn: TurnId::new(ThreadId::derive(&["thread", &number.to_string()]), 1),
            name: format!("alpha work p-{number}"),
            approval,
            failures: 0,
            end: v1::TurnStatus::Completed,
        }
    }

    /// Adds a tag, an op row and an audit entry of a write.
    fn add_effect(evidence: &mut Evidence, write: &ApprovedWrite, name: &str) {
        let call = CallId::new(write.turn.clone(), 1, 1);
        let state = OpState::Done(OpResult::Resource { id: String::new(), name: name.to_owned() });
        let digest = Digest::of(name.as_bytes());
        let row = OpRow { op: OpKey::Call(call.clone()), digest, state, at: Timestamp::UNIX_EPOCH };
        evidence.aggregates.push(ObservedAggregate {
            is_live: true,
            name: Some(name.to_owned()),
            ops: vec![row],
            ..ObservedAggregate::default()
        });
        let entry = ObservedAuditEntry { call: Some(call), kind: "call_effect".to_owned(), user: None, ok: true };
        evidence.audit.get_or_insert_default().push(entry);
    }

    #[test]
    fn a_missing_effect_a_second_effect_and_a_turn_that_did_not_complete_are_found() {
        let (first, tenth) = (write(1, None), write(10, None));
        let mut evidence = Evidence::default();
        assert!(lost(&first, &evidence).unwrap().contains("0 tags, 0 op rows, 0 audit entries"));
        add_effect(&mut evidence, &first, &first.name);
        add_effect(&mut evidence, &tenth, &tenth.name);
        assert_eq!((lost(&first, &evidence), lost(&tenth, &evidence)), (None, None));
        let failed = ApprovedWrite { end: v1::TurnStatus::Failed, ..first.clone() };
        assert!(lost(&failed, &evidence).unwrap().contains("(Failed)"));
        add_effect(&mut evidence, &first, &format!("{} (2)", first.name));
        assert!(lost(&first, &evidence).unwrap().contains("2 tags, 2 op rows, 2 audit entries"));
        assert_eq!(lost(&tenth, &evidence), None);
    }

    #[test]
    fn approvals_before_and_after_a_stop_do_not_count() {
        let begun = Instant::now();
        let at = |second| begun + Duration::from_secs(second);
        let approvals = [(0, 1), (1, 12), (11, 14), (12, 40), (19, 22), (20, 90)];
        let writes = approvals.iter().map(|(from, to)| write(0, Some(at(*from)..at(*to)))).collect();
        let stopped = |writes| StopResult {
            stop: Stop::Killed,
            time: at(10)..at(20),
            writes,
            memory: Vec::new(),
            in_flight: InFlight { reads: 7, watches: 2 },
        };
        let result = stopped(writes);
        let seconds: Vec<_> = result.latencies().iter().map(Duration::as_secs).collect();
        assert_eq!(seconds, [3, 3, 11, 28]);
        let report = |mut result: StopResult, change: fn(&mut ApprovedWrite)| {
            change(&mut result.writes[0]);
            Report { stops: vec![result], lost: Vec::new(), violations: Vec::new() }
        };
        let failed = |change: fn(&mut ApprovedWrite)| report(stopped(vec![write(0, None)]), change).failed_turns();
        assert_eq!(failed(|_| {}), 0);
        assert_eq!(failed(|write| write.failures = 1), 1);
        assert_eq!(failed(|write| write.end = v1::TurnStatus::Cancelled), 1);
        let report = report(result, |_| {});
        let in_flight = InFlight { reads: 7, watches: 2 };
        assert_eq!((report.overlapping(), report.p99().as_secs(), report.in_flight()), (4, 28, in_flight));
    }
}
