//! Two versions of Folio on the same stores: the processes of a cluster are replaced one by one under traffic, forward,
//! back and forward again.
//!
//! Nodes stop before their replacement starts, and gateways stop after it, as in the Helm chart. The old version creates
//! the keyspace and the tenants; the new version migrates the keyspace while only old processes run.
//!
//! The traffic stores no value that `v0.1.0` cannot read, such as a group of tasks or the mention of a collection.
//! `docs/operations.md`, "Upgrade", lists these values.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_test_servers::Redis;
use folio_types::OrgId;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::injection::restart_dead;
use super::log::Log;
use super::refusals::Refusals;
use super::report::Report;
use super::run::{create_granter, create_users, setup};
use super::simulated_user::SimulatedUser;
use super::tables::Tables;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, Role, Setup};
use crate::harness::process::Process;
use crate::harness::tenant::Tenant;

/// Nodes and gateways of the cluster.
const NODES: usize = 2;
const GATEWAYS: usize = 2;

/// Time limit for the approvals between two replacements.
const APPROVED_WITHIN: Duration = Duration::from_secs(300);
/// Time limit for a process to exit after SIGTERM: the time limit of a drain, and several times that for its stores on a busy machine.
const EXITED_WITHIN: Duration = Duration::from_secs(60);
/// Time limit for the nodes to be up after a replacement.
const UP_WITHIN: Duration = Duration::from_secs(90);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Old,
    New,
}

/// One process is replaced by a process of a version.
#[derive(Debug, Clone, Copy)]
struct Replacement {
    role: Role,
    number: usize,
    version: Version,
}

const fn replacement(role: Role, number: usize, version: Version) -> Replacement {
    Replacement { role, number, version }
}

/// The replacements. Node 0 becomes new, old and new again, so that threads move from each version to the other.
const REPLACEMENTS: [Replacement; 8] = [
    replacement(Role::Node, 0, Version::New),
    replacement(Role::Gateway, 0, Version::New),
    replacement(Role::Node, 0, Version::Old),
    replacement(Role::Gateway, 0, Version::Old),
    replacement(Role::Node, 0, Version::New),
    replacement(Role::Node, 1, Version::New),
    replacement(Role::Gateway, 1, Version::New),
    replacement(Role::Gateway, 0, Version::New),
];

#[derive(Debug, Clone)]
pub struct Plan {
    pub seed: u64,
    /// Programs of the two versions.
    pub old: PathBuf,
    pub new: PathBuf,
    /// Minimum number of approvals before each replacement and after the last one.
    pub approvals: usize,
}

impl Plan {
    fn program(&self, version: Version) -> Result<String> {
        let path = match version {
            Version::Old => &self.old,
            Version::New => &self.new,
        };
        // The processes run in another folder.
        let path = std::fs::canonicalize(path).with_context(|| format!("{} is missing", path.display()))?;
        path.into_os_string().into_string().map_err(|path| anyhow!("the path {path:?} is not UTF-8"))
    }
}

/// Replaces all processes of an old cluster under traffic, and checks the result.
pub async fn run(plan: Plan) -> Result<Report> {
    println!("FOLIO_SEED={}", plan.seed);
    let mut random = StdRng::seed_from_u64(plan.seed);
    let (old, new) = (plan.program(Version::Old)?, plan.program(Version::New)?);
    let servers = tokio::task::spawn_blocking(|| anyhow::Ok((Redis::start()?, folio_test_servers::cql()?)));
    let (redis, cql) = servers.await??;
    let setup = Setup { nodes: NODES, gateways: GATEWAYS, ..setup(redis.port(), cql.clone(), 1) };
    // Credit is granted at each replacement, not when the balance is low.
    let mut cluster = setup.with("FOLIO_CREDIT__MONTHLY_ALLOWANCE", 1_000_000).prepare().await;
    let printed = migrate(&cluster, &old)?;
    let token = printed.lines().find(|line| line.starts_with("folio_")).context("no admin token was printed")?;
    cluster.start_processes(&old).await;
    let platform = create_tenants(&mut cluster, token).await;
    let tables = Tables::open(&cql, &cluster.keyspace).await?;
    let (log, refusals) = (Log::default(), Refusals::default());
    let (stop, stopped) = watch::channel(false);
    let mut users = JoinSet::new();
    for user in create_users(&cluster, &log, &refusals, &mut random).await {
        users.spawn(user.work(stopped.clone()));
    }
    let mut granter = create_granter(&cluster, platform, &log, &refusals, &mut random);
    let orgs: Vec<OrgId> = cluster.tenants.iter().map(|tenant| tenant.org.clone()).collect();
    let (begun, mut replaced, mut failures) = (Instant::now(), 0, Vec::new());
    wait_for_approvals(&log, plan.approvals).await?;
    migrate(&cluster, &new)?;
    wait_for_approvals(&log, plan.approvals).await?;
    for Replacement { role, number, version } in REPLACEMENTS {
        let program = plan.program(version)?;
        // The connections of a gateway end with its old process. A client may send a request on one that is being closed.
        let disturbed = (role == Role::Gateway).then_some(number);
        disturbed.into_iter().for_each(|gateway| refusals.begin_disturbance(gateway));
        let is_replaced = replace(&mut cluster, (role, number), &program).await;
        disturbed.into_iter().for_each(|gateway| refusals.end_disturbance(gateway));
        is_replaced.with_context(|| format!("{role:?} {number}"))?;
        replaced += 1;
        wait_until_up(&cluster, &new).await?;
        failures.extend(grant(&mut granter, &orgs, replaced).await.err());
        wait_for_approvals(&log, plan.approvals).await?;
        let (seconds, approvals) = (begun.elapsed().as_secs_f64(), log.approvals());
        println!("{seconds:6.1} s  {role:?} {number} is {version:?}, {approvals} approvals");
        if restart_dead(&mut cluster).await > 0 {
            failures.push("a process died unexpectedly".to_owned());
        }
    }
    stop.send_replace(true);
    failures.extend(users.join_all().await.concat());
    log.change_answers(remove_new_fields);
    let events = ("processes replaced", replaced);
    let (report, coverage) = Report::of(&cluster, &tables, (&log, &refusals), events, failures).await?;
    println!("{coverage}");
    Ok(report)
}

/// Removes the fields that `v0.1.0` does not know, because a repeated request may be answered by a process of the other
/// version.
fn remove_new_fields(answer: &mut v1::ApproveResponse) {
    if let Some(Outcome::Completed(completed)) = &mut answer.outcome
        && let Some(usage) = &mut completed.usage
    {
        usage.credits = 0;
    }
}

/// Runs `folio migrate` of a program. Returns its standard output.
fn migrate(cluster: &Cluster, program: &str) -> Result<String> {
    let printed = output(cluster, program, &["migrate"])?;
    println!("{}", printed.lines().next().unwrap_or_default());
    Ok(printed)
}

/// Runs a command to its end. Returns its standard output.
fn output(cluster: &Cluster, program: &str, words: &[&str]) -> Result<String> {
    let output = tokio::task::block_in_place(|| cluster.launcher().with_program(program).run(words));
    if !output.status.success() {
        bail!("folio {} failed ({}): {}", words.join(" "), output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Creates the tenants. Returns the platform's administrator.
async fn create_tenants(cluster: &mut Cluster, token: &str) -> Tenant {
    let url = format!("http://{}", cluster.gateways[0].listener_proxy.address());
    let client = Client::connect(&url, Some(token)).await;
    for marker in cluster.setup.markers.clone() {
        cluster.tenants.push(Tenant::create_over_api(&client, marker).await);
    }
    Tenant { org: OrgId::first(), marker: "platform".to_owned(), token: token.to_owned() }
}

async fn replace(cluster: &mut Cluster, (role, number): (Role, usize), program: &str) -> Result<()> {
    let member = match role {
        Role::Node => &mut cluster.nodes[number],
        Role::Gateway => &mut cluster.gateways[number],
    };
    let process = member.take().context("the process does not run")?;
    member.set_program(program);
    let mut start =
        async || member.try_start(&[]).await.map_err(|errors| anyhow!("the replacement does not start: {errors}"));
    match role {
        Role::Node => {
            drain(process).await?;
            start().await
        }
        Role::Gateway => {
            start().await?;
            drain(process).await
        }
    }
}

async fn drain(mut process: Process) -> Result<()> {
    process.send_sigterm();
    let is_dead = || std::future::ready(process.is_dead().then_some(()));
    folio_testkit::wait_for("the exit of a drained process", EXITED_WITHIN, is_dead).await;
    let errors = process.errors();
    ensure!(process.wait_for_exit(), "a drained process failed: {errors}");
    Ok(())
}

/// Returns the number of nodes that `folio cluster status` reports as up. Error: a store did not respond in time.
fn nodes_up(cluster: &Cluster, program: &str) -> Result<usize> {
    let status: Value = serde_json::from_str(&output(cluster, program, &["cluster", "status", "--json"])?)?;
    let nodes = status["nodes"].as_array().context("the status contains no nodes")?;
    Ok(nodes.iter().filter(|node| node["state"] == "up").count())
}

/// Waits until `folio cluster status` reports all nodes as up.
async fn wait_until_up(cluster: &Cluster, program: &str) -> Result<()> {
    let end = Instant::now() + UP_WITHIN;
    loop {
        let up = nodes_up(cluster, program);
        if matches!(up, Ok(NODES)) {
            return Ok(());
        }
        ensure!(Instant::now() < end, "not all nodes are up: {up:?}");
        // The state of a node changes with its next heartbeat.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Waits for further approvals, with the time limit [`APPROVED_WITHIN`].
async fn wait_for_approvals(log: &Log, count: usize) -> Result<()> {
    let (aim, end) = (log.approvals() + count, Instant::now() + APPROVED_WITHIN);
    while log.approvals() < aim {
        ensure!(Instant::now() < end, "there were fewer than {count} approvals within {APPROVED_WITHIN:?}");
        // The clients approve further calls during the sleep.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

async fn grant(granter: &mut SimulatedUser, orgs: &[OrgId], number: usize) -> Result<(), String> {
    for org in orgs {
        granter.grant(org, number as u64).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_process_becomes_new_and_each_role_also_returns_to_the_old_version() {
        let mut versions = [[Version::Old; 2]; 2];
        for (at, Replacement { role, number, version }) in REPLACEMENTS.into_iter().enumerate() {
            let current = &mut versions[usize::from(role == Role::Gateway)][number];
            assert_ne!(*current, version, "replacement {at} changes nothing");
            *current = version;
        }
        assert_eq!(versions, [[Version::New; NODES], [Version::New; GATEWAYS]]);
        for role in [Role::Node, Role::Gateway] {
            let is_return = |one: &&Replacement| one.role == role && one.version == Version::Old;
            assert_eq!(REPLACEMENTS.iter().filter(is_return).count(), 1, "{role:?}");
        }
    }
}
