//! One run: a cluster, its clients, its faults, and the result of the checker.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use folio_types::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::checker::{Violation, check};
use super::coverage::Coverage;
use super::injection::{inject, restart_dead};
use super::log::{ClientEvent, Log};
use super::refusals::Refusals;
use super::schedule::Schedule;
use super::servers::Servers;
use super::settle::{TimeLimits, gather};
use super::simulated_user::SimulatedUser;
use super::tables::Tables;
use crate::harness::cluster::{Cluster, HeartbeatTimes, Setup};
use crate::harness::settings::INVOICE;
use crate::harness::tenant::Tenant;

/// Script of the model.
pub(super) const SCRIPT: &str = include_str!("work.yaml");

/// Time for which a pause waits, in seconds. Short, so that pauses of disconnected clients expire during the faults.
const APPROVAL_TTL_SECONDS: u64 = 45;

/// Prices and credit settings. A call costs two or three credits; some ten are reserved for its longest answer, so a
/// part of each reservation is returned. The allowance suffices for a few calls.
const CREDIT: &[(&str, &str)] = &[
    ("FOLIO_MODELS__PROVIDERS__SIM__MODELS__SCRIPTED__INPUT_PRICE", "1000000"),
    ("FOLIO_MODELS__PROVIDERS__SIM__MODELS__SCRIPTED__OUTPUT_PRICE", "10000000"),
    ("FOLIO_CREDIT__MONTHLY_ALLOWANCE", "60"),
    ("FOLIO_CREDIT__BLOCK_CREDITS", "12"),
    ("FOLIO_CREDIT__BLOCK_CREDITS_MAX", "24"),
    ("FOLIO_CREDIT__BLOCK_SECONDS", "3"),
    ("FOLIO_CREDIT__IDLE_SECONDS", "1"),
    ("FOLIO_CREDIT__RESERVATION_SECONDS", "15"),
    ("FOLIO_MODELS__TIMEOUTS__CALL_SECONDS", "10"),
];

/// Concurrent clients, half of them of each tenant.
const USERS: usize = 8;

/// Minimum duration of a run in which a call of every tool that writes must succeed.
const COMPLETE_RUN: Duration = Duration::from_secs(180);

#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    pub faults: usize,
    pub approvals: usize,
    pub time: Duration,
    /// Number of CQL servers: 1 or 3.
    pub cql_nodes: usize,
}

#[derive(Debug)]
pub struct Report {
    pub turns: usize,
    pub approvals: usize,
    pub faults: usize,
    pub violations: Vec<Violation>,
    /// Other failures: turns that did not end, processes that died unexpectedly.
    pub failures: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        for failure in &self.failures {
            writeln!(f, "{failure}")?;
        }
        let (turns, approvals, faults) = (self.turns, self.approvals, self.faults);
        let violations = self.violations.len() + self.failures.len();
        write!(f, "turns {turns}, approvals {approvals}, faults {faults}, violations {violations}")
    }
}

/// Runs until the numbers of faults and approvals and the duration are reached, and checks the result.
pub async fn run(plan: Plan) -> Result<Report> {
    println!("FOLIO_SEED={}", plan.seed);
    let mut random = StdRng::seed_from_u64(plan.seed);
    let nodes = plan.cql_nodes;
    let mut servers = tokio::task::spawn_blocking(move || Servers::start(nodes)).await??;
    let mut cluster = start(&servers, nodes).await;
    let tables = Tables::open(&servers.cql.addresses(), &cluster.keyspace).await?;
    let (log, refusals) = (Log::default(), Refusals::default());
    let (stop, stopped) = watch::channel(false);
    let mut users = JoinSet::new();
    for user in create_users(&cluster, &log, &refusals, &mut random).await {
        users.spawn(user.work(stopped.clone()));
    }
    // Credit is granted until all clients have finished.
    let mut granting = JoinSet::new();
    let orgs = cluster.tenants.iter().map(|tenant| tenant.org.clone()).collect();
    let (report_failure, mut grant_failures) = mpsc::unbounded_channel();
    let granter = create_granter(&cluster, &log, &refusals, &mut random).await;
    granting.spawn(granter.top_up(cluster.stores.clone(), orgs, report_failure));
    let begun = Instant::now();
    println!("{}", Timestamp::now());
    let mut schedule = Schedule::new(StdRng::seed_from_u64(random.random()));
    let (mut faults, mut died) = (0, 0);
    while faults < plan.faults || begun.elapsed() < plan.time {
        let incident = schedule.next();
        // The seed determines the time of the incident.
        tokio::time::sleep(incident.after).await;
        println!("{:6.1} s  fault {}: {incident}", begun.elapsed().as_secs_f64(), faults + 1);
        faults += inject(&mut cluster, &mut servers, &incident, &refusals).await.context("cannot repair a fault")?;
        died += restart_dead(&mut cluster).await;
    }
    while approvals(&log) < plan.approvals && begun.elapsed() < plan.time + Duration::from_secs(300) {
        // The clients approve further calls during the sleep.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("{:6.1} s  no more faults, {} approvals", begun.elapsed().as_secs_f64(), approvals(&log));
    stop.send_replace(true);
    let mut failures = users.join_all().await.concat();
    failures.extend(refusals.faults());
    granting.shutdown().await;
    failures.extend(std::iter::from_fn(|| grant_failures.try_recv().ok()));
    if died > 0 {
        failures.push(format!("{died} processes died unexpectedly"));
    }
    let limits = TimeLimits {
        stuck: cluster.setup.heartbeat_times.dead_after + Duration::from_secs(5),
        total: Duration::from_secs(60),
    };
    let evidence = gather(&cluster, &tables, &log, limits).await?;
    println!("{:6.1} s  idle; errors: {:?}", begun.elapsed().as_secs_f64(), refusals.all());
    let coverage = Coverage::of(&evidence.threads);
    println!("{coverage}");
    // A short run does not reach every tool.
    if plan.time >= COMPLETE_RUN {
        failures.extend(coverage.unused());
    }
    let turns = evidence.threads.iter().map(|thread| thread.header.turns as usize).sum();
    if turns == 0 {
        bail!("no turn was accepted");
    }
    Ok(Report { turns, approvals: approvals(&log), faults, violations: check(&evidence), failures })
}

async fn start(servers: &Servers, nodes: usize) -> Cluster {
    let replication_factor = if nodes >= 3 { 3 } else { 1 };
    let setup = Setup {
        heartbeat_times: HeartbeatTimes::QUICK,
        replication_factor,
        markers: vec!["alpha", "beta"],
        is_long_run: true,
        ..Setup::new(SCRIPT, servers.redis.port(), servers.cql.addresses())
    };
    // Small blocks with a short lifetime are acquired, closed and taken over constantly.
    let setup = CREDIT.iter().fold(setup, |setup, (name, value)| setup.with(name, value));
    setup
        .with("FOLIO_SERVER__DRAIN_TIMEOUT_SECONDS", 5)
        .with("FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS", APPROVAL_TTL_SECONDS)
        .start()
        .await
}

async fn create_users(cluster: &Cluster, log: &Log, refusals: &Refusals, random: &mut StdRng) -> Vec<SimulatedUser> {
    let mut documents = Vec::new();
    for tenant in 0..cluster.tenants.len() {
        let client = cluster.client_of(0, tenant).await;
        documents.push(client.upload("invoice.txt", INVOICE.as_bytes()).await);
    }
    let gateways = gateways(cluster);
    let user = |number: usize| {
        let tenant = number % cluster.tenants.len();
        let random = StdRng::seed_from_u64(random.random());
        let (tenant, document) = (cluster.tenants[tenant].clone(), documents[tenant].clone());
        SimulatedUser::new(
            format!("p{number}"),
            tenant,
            document,
            gateways.clone(),
            log.clone(),
            random,
            refusals.clone(),
        )
    };
    (0..USERS).map(user).collect()
}

/// Creates the client that grants credit.
async fn create_granter(cluster: &Cluster, log: &Log, refusals: &Refusals, random: &mut StdRng) -> SimulatedUser {
    let (tenant, random) = (Tenant::platform(&cluster.stores).await, StdRng::seed_from_u64(random.random()));
    let (log, refusals) = (log.clone(), refusals.clone());
    SimulatedUser::new("granter".to_owned(), tenant, String::new(), gateways(cluster), log, random, refusals)
}

/// Returns the gateways' addresses, which do not change when their processes restart.
fn gateways(cluster: &Cluster) -> Vec<String> {
    cluster.gateways.iter().map(|gateway| gateway.listener_proxy.address()).collect()
}

/// Returns the number of rounds whose decisions were answered.
fn approvals(log: &Log) -> usize {
    let mut rounds: Vec<_> = log
        .lines()
        .into_iter()
        .filter_map(|line| match line.event {
            ClientEvent::Answered(decisions, _) => Some((decisions.turn, decisions.round)),
            _ => None,
        })
        .collect();
    rounds.sort();
    rounds.dedup();
    rounds.len()
}
