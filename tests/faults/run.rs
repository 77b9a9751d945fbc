//! One run: a cluster, its clients, its faults, and the result of the checker.

use std::time::Duration;

use anyhow::Result;
use folio_types::Timestamp;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::incidents::Incidents;
use super::injection::{JOB_STEPS, TURN_STEPS};
use super::log::Log;
use super::refusals::Refusals;
use super::report::Report;
use super::servers::Servers;
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
/// Concurrent clients that work with jobs, half of them of each tenant.
const JOB_USERS: usize = 2;

/// Time after the last fault within which the minimum number of approvals must be reached.
const APPROVED_WITHIN: Duration = Duration::from_secs(300);

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

/// Runs until the numbers of faults and approvals and the duration are reached, and checks the result. The report has fewer approvals
/// if they are not reached within [`APPROVED_WITHIN`].
pub async fn run(plan: Plan) -> Result<Report> {
    println!("FOLIO_SEED={}", plan.seed);
    let mut random = StdRng::seed_from_u64(plan.seed);
    let nodes = plan.cql_nodes;
    let mut servers = tokio::task::spawn_blocking(move || Servers::start(nodes)).await??;
    let mut cluster = setup(servers.redis.port(), servers.cql.addresses(), nodes).start().await;
    let tables = Tables::open(&servers.cql.addresses(), &cluster.keyspace).await?;
    let (log, refusals) = (Log::default(), Refusals::default());
    let (stop, stopped) = watch::channel(false);
    let mut users = JoinSet::new();
    for mut user in create_users(&cluster, &log, &refusals, &mut random).await {
        user.uses_assistant = true;
        users.spawn(user.work(stopped.clone()));
    }
    for number in 0..JOB_USERS {
        let user = create_job_user(&cluster, number, &log, &refusals, &mut random);
        users.spawn(user.work_with_jobs(stopped.clone()));
    }
    // Credit is granted until all clients have finished.
    let mut granting = JoinSet::new();
    let orgs = cluster.tenants.iter().map(|tenant| tenant.org.clone()).collect();
    let (report_failure, mut grant_failures) = mpsc::unbounded_channel();
    let platform = Tenant::platform(cluster.stores()).await;
    let granter = create_granter(&cluster, platform, &log, &refusals, &mut random);
    granting.spawn(granter.top_up(cluster.stores().clone(), orgs, report_failure));
    println!("{}", Timestamp::now());
    let failpoints = [TURN_STEPS, JOB_STEPS].concat();
    let mut incidents = Incidents::new(StdRng::seed_from_u64(random.random()), cluster.nodes.len(), failpoints);
    while incidents.faults < plan.faults || incidents.elapsed() < plan.time {
        incidents.inject_next(&mut cluster, &mut servers, &refusals).await?;
    }
    let time_limit = incidents.elapsed() + APPROVED_WITHIN;
    while log.approvals() < plan.approvals && incidents.elapsed() < time_limit {
        // The clients approve further calls during the sleep.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("{:6.1} s  no more faults, {} approvals", incidents.elapsed().as_secs_f64(), log.approvals());
    stop.send_replace(true);
    let mut failures = users.join_all().await.concat();
    granting.shutdown().await;
    failures.extend(std::iter::from_fn(|| grant_failures.try_recv().ok()));
    failures.extend(incidents.failure());
    let events = ("faults", incidents.faults);
    let (mut report, mut coverage) = Report::of(&cluster, &tables, (&log, &refusals), events, failures).await?;
    coverage.add_incidents(&incidents.injected);
    println!("{coverage}");
    report.failures.extend(coverage.missing_overlaps(incidents.faults));
    report.failures.extend(coverage.late_expiry(incidents.longest));
    // A short run does not reach every tool.
    if plan.time >= COMPLETE_RUN {
        report.failures.extend(coverage.unused());
    }
    Ok(report)
}

/// Returns the setup of a cluster with two tenants on these servers, of which `nodes` are CQL servers.
pub(super) fn setup(redis: u16, cql: String, nodes: usize) -> Setup {
    let replication_factor = if nodes >= 3 { 3 } else { 1 };
    let setup = Setup {
        heartbeat_times: HeartbeatTimes::QUICK,
        replication_factor,
        markers: vec!["alpha", "beta"],
        is_long_run: true,
        ..Setup::new(SCRIPT, redis, cql)
    };
    // Small blocks with a short lifetime are acquired, closed and taken over constantly.
    let setup = CREDIT.iter().fold(setup, |setup, (name, value)| setup.with(name, value));
    setup
        .with("FOLIO_SERVER__DRAIN_TIMEOUT_SECONDS", 5)
        .with("FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS", APPROVAL_TTL_SECONDS)
}

/// Creates the clients, half of them of each tenant.
pub(super) async fn create_users(
    cluster: &Cluster,
    log: &Log,
    refusals: &Refusals,
    random: &mut StdRng,
) -> Vec<SimulatedUser> {
    let mut documents = Vec::new();
    for tenant in 0..cluster.tenants.len() {
        let client = cluster.client_of(0, tenant).await;
        documents.push(client.upload_first("invoice.txt", INVOICE.as_bytes()).await);
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

/// Creates a client that works with jobs, of the tenant with this number, modulo their number.
pub(super) fn create_job_user(
    cluster: &Cluster,
    number: usize,
    log: &Log,
    refusals: &Refusals,
    random: &mut StdRng,
) -> SimulatedUser {
    let tenant = cluster.tenants[number % cluster.tenants.len()].clone();
    let random = StdRng::seed_from_u64(random.random());
    let (name, log, refusals) = (format!("j{number}"), log.clone(), refusals.clone());
    SimulatedUser::new(name, tenant, String::new(), gateways(cluster), log, random, refusals)
}

/// Creates the client that grants credit, with the token of a platform administrator.
pub(super) fn create_granter(
    cluster: &Cluster,
    platform: Tenant,
    log: &Log,
    refusals: &Refusals,
    random: &mut StdRng,
) -> SimulatedUser {
    let random = StdRng::seed_from_u64(random.random());
    let (log, refusals) = (log.clone(), refusals.clone());
    SimulatedUser::new("granter".to_owned(), platform, String::new(), gateways(cluster), log, random, refusals)
}

/// Returns the gateways' addresses, which do not change when their processes restart.
fn gateways(cluster: &Cluster) -> Vec<String> {
    cluster.gateways.iter().map(|gateway| gateway.listener_proxy.address()).collect()
}
