//! Injects faults into a running cluster.

use std::time::Duration;

use anyhow::{Result, ensure};
use folio_testkit::proxy::Mode;
use tokio::time::Instant;

use super::refusals::Refusals;
use super::schedule::{Fault, Incident, Kind};
use super::servers::Servers;
use crate::harness::cluster::{Cluster, Member};

/// Failpoints of turns for `NodeKilledAtStep`.
pub(super) const TURN_STEPS: &[&str] = &[
    "accept:after",
    "pause:before",
    "pause:after",
    "decide:before",
    "decide:after",
    "intent:before",
    "intent:after",
    "write:before",
    "write:after",
    "outcome:before",
    "outcome:after",
    "model:before",
    "model:after",
    "end:before",
    "end:after",
    "resume:after",
];
/// Failpoints of jobs for `NodeKilledAtStep`.
pub(super) const JOB_STEPS: &[&str] = &[
    "start:before",
    "start:after",
    "begin:before",
    "begin:after",
    "finish:before",
    "finish:after",
    "wait:before",
    "wait:after",
    "complete:before",
    "complete:after",
];
/// Failpoints of a job with several pages for `NodeKilledAtStep`.
pub(super) const PAGE_STEPS: &[&str] = &["advance:before", "advance:after"];

/// Timeout for a process to reach its failpoint.
const REACHED_WITHIN: Duration = Duration::from_secs(6);
/// Timeout for a process to exit after SIGTERM. The drain, the settlement of model calls and the return of credit take up to 5 s each;
/// the rest is for a busy machine.
const EXITED_WITHIN: Duration = Duration::from_secs(60);
/// Timeout for a process to start after all faults of an incident ended.
const STARTED_WITHIN: Duration = Duration::from_secs(90);
/// Offset of a wrong clock: a month in seconds.
const CLOCK_OFFSET: &str = "2678400";

/// The begin or the end of a fault.
enum Step {
    Begin,
    End,
}

/// Injects the faults of an incident and repairs their damage. Records in `refusals` when faults end connections of a
/// gateway. Returns the number of faults. `failpoints`: the choice for `NodeKilledAtStep`, at least one.
pub(super) async fn inject(
    cluster: &mut Cluster,
    servers: &mut Servers,
    incident: &Incident,
    refusals: &Refusals,
    failpoints: &[&str],
) -> Result<usize> {
    let numbers = (cluster.nodes.len(), cluster.gateways.len());
    let steps =
        |(start, fault): &(Duration, Fault)| [(*start, Step::Begin, *fault), (*start + fault.lasts, Step::End, *fault)];
    let mut steps: Vec<_> = incident.faults.iter().flat_map(steps).collect();
    steps.sort_by_key(|(at, ..)| *at);
    let begun = Instant::now();
    let mut down = Vec::new();
    for (at, step, fault) in steps {
        // The sleep is the time until a fault starts or ends.
        tokio::time::sleep_until(begun + at).await;
        let disturbed = disturbed_gateway(fault, numbers);
        match step {
            Step::Begin => {
                disturbed.into_iter().for_each(|gateway| refusals.begin_disturbance(gateway));
                begin(cluster, servers, fault, failpoints).await?;
            }
            Step::End if end(cluster, servers, fault, failpoints).await? => {
                disturbed.into_iter().for_each(|gateway| refusals.end_disturbance(gateway));
            }
            Step::End => down.push(fault),
        }
    }
    // A process could not start while another fault stopped its store: it starts now, after all faults.
    for fault in down {
        restart(process(cluster, fault)).await?;
        disturbed_gateway(fault, numbers).into_iter().for_each(|gateway| refusals.end_disturbance(gateway));
    }
    Ok(incident.faults.len())
}

/// Returns the number of the gateway whose connections the fault ends. No other fault may break a client's connection.
fn disturbed_gateway(fault: Fault, (nodes, gateways): (usize, usize)) -> Option<usize> {
    match fault.kind {
        Kind::GatewayKilled => Some(fault.target % gateways),
        Kind::ListenerCut => (fault.target % (nodes + gateways)).checked_sub(nodes),
        _ => None,
    }
}

async fn restart(member: &mut Member) -> Result<()> {
    let end = Instant::now() + STARTED_WITHIN;
    while let Err(errors) = member.try_start(&[]).await {
        ensure!(Instant::now() < end, "{:?} {} does not start: {errors}", member.role, member.number);
        // The store may be slow after its restart.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

async fn begin(cluster: &mut Cluster, servers: &mut Servers, fault: Fault, failpoints: &[&str]) -> Result<()> {
    match fault.kind {
        Kind::NodeKilled | Kind::GatewayKilled => process(cluster, fault).kill(),
        Kind::NodeKilledAtStep => {
            let node = node(cluster, fault);
            node.kill();
            // The node may reach the failpoint before it listens.
            let _ = node.try_start(&[("FOLIO_FAILPOINT", failpoint(fault, failpoints))]).await;
        }
        Kind::NodeStopped => node(cluster, fault).process().pause(),
        Kind::NodeDrained => node(cluster, fault).process().send_sigterm(),
        Kind::RedisRestarted | Kind::RedisLost => servers.redis.kill(),
        Kind::RedisEmptied => drop(servers.redis.command("FLUSHALL")?),
        Kind::CqlRestarted => servers.cql(fault.target)?.kill(),
        Kind::CqlStopped => servers.cql(fault.target)?.pause()?,
        Kind::ListenerCut => member(cluster, fault).listener_proxy.set(Mode::Cut),
        Kind::RedisCut => member(cluster, fault).redis.set(Mode::Cut),
        Kind::ResponsesLost => member(cluster, fault).cql.set(Mode::Mute),
        Kind::CqlStalled => member(cluster, fault).cql.set(Mode::Stall),
        Kind::ClockJumped => std::fs::write(&node(cluster, fault).clock, CLOCK_OFFSET)?,
    }
    Ok(())
}

/// Ends a fault and repairs its damage. Returns false if a process did not start again, because another fault of the
/// incident continues.
async fn end(cluster: &mut Cluster, servers: &mut Servers, fault: Fault, failpoints: &[&str]) -> Result<bool> {
    match fault.kind {
        Kind::NodeKilled | Kind::GatewayKilled | Kind::NodeKilledAtStep | Kind::NodeDrained => {
            let process = process(cluster, fault);
            match fault.kind {
                Kind::NodeKilledAtStep => kill_after_step(process, failpoint(fault, failpoints)).await,
                Kind::NodeDrained => wait_for_drain(process).await?,
                _ => {}
            }
            return Ok(process.try_start(&[]).await.is_ok());
        }
        Kind::NodeStopped => node(cluster, fault).process().resume(),
        Kind::RedisRestarted => tokio::task::block_in_place(|| servers.redis.run())?,
        Kind::RedisLost => tokio::task::block_in_place(|| servers.redis.run_emptied())?,
        Kind::RedisEmptied => {}
        Kind::CqlRestarted => tokio::task::block_in_place(|| servers.cql(fault.target)?.run())?,
        Kind::CqlStopped => servers.cql(fault.target)?.resume()?,
        Kind::ListenerCut => member(cluster, fault).listener_proxy.set(Mode::Pass),
        Kind::RedisCut => member(cluster, fault).redis.set(Mode::Pass),
        Kind::ResponsesLost => {
            let proxy = &member(cluster, fault).cql;
            proxy.set(Mode::Cut);
            // Within this time the proxy closes the connections whose responses were lost.
            tokio::time::sleep(Duration::from_millis(100)).await;
            proxy.set(Mode::Pass);
        }
        Kind::CqlStalled => member(cluster, fault).cql.set(Mode::Pass),
        Kind::ClockJumped => std::fs::write(&node(cluster, fault).clock, "0")?,
    }
    Ok(true)
}

/// Returns the process that a fault ends: a gateway or a node.
fn process(cluster: &mut Cluster, fault: Fault) -> &mut Member {
    match fault.kind {
        Kind::GatewayKilled => gateway(cluster, fault),
        _ => node(cluster, fault),
    }
}

fn node(cluster: &mut Cluster, fault: Fault) -> &mut Member {
    let nodes = cluster.nodes.len();
    &mut cluster.nodes[fault.target % nodes]
}

fn gateway(cluster: &mut Cluster, fault: Fault) -> &mut Member {
    let gateways = cluster.gateways.len();
    &mut cluster.gateways[fault.target % gateways]
}

/// Returns the node or the gateway that a fault targets. The numbers of the gateways follow those of the nodes.
fn member(cluster: &mut Cluster, fault: Fault) -> &mut Member {
    let all = cluster.nodes.len() + cluster.gateways.len();
    let mut members = cluster.nodes.iter_mut().chain(&mut cluster.gateways);
    members.nth(fault.target % all).expect("a member")
}

fn failpoint<'a>(fault: Fault, failpoints: &[&'a str]) -> &'a str {
    failpoints[fault.target / 7 % failpoints.len()]
}

async fn kill_after_step(node: &mut Member, step: &str) {
    wait_until_dead(node, Instant::now() + REACHED_WITHIN).await;
    let result = if node.is_up() { "did not die" } else { "died" };
    println!("  node {} {result} at {step}", node.number);
    node.kill();
}

async fn wait_for_drain(node: &mut Member) -> Result<()> {
    wait_until_dead(node, Instant::now() + EXITED_WITHIN).await;
    ensure!(!node.is_up(), "node {} did not exit within {EXITED_WITHIN:?}: {}", node.number, node.last_errors());
    if let Some(process) = node.take() {
        println!("  node {} exited with status 0: {}", node.number, process.wait_for_exit());
    }
    Ok(())
}

async fn wait_until_dead(node: &mut Member, end: Instant) {
    while node.is_up() && Instant::now() < end {
        // A process that exits sends no notification.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Restarts processes that died unexpectedly, and prints the end of their output. Returns their number.
pub(super) async fn restart_dead(cluster: &mut Cluster) -> usize {
    let mut dead = 0;
    for member in cluster.nodes.iter_mut().chain(&mut cluster.gateways) {
        if !member.is_up() {
            dead += 1;
            println!("  {:?} {} died unexpectedly: {}", member.role, member.number, member.last_errors());
            member.start(&[]).await;
        }
    }
    dead
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_faults_that_end_the_connections_of_a_gateway_disturb_it() {
        let disturbed = |kind, target| disturbed_gateway(Fault { kind, target, lasts: Duration::ZERO }, (3, 2));
        assert_eq!([disturbed(Kind::GatewayKilled, 2), disturbed(Kind::GatewayKilled, 3)], [Some(0), Some(1)]);
        let cut = [2, 3, 4, 5].map(|target| disturbed(Kind::ListenerCut, target));
        assert_eq!(cut, [None, Some(0), Some(1), None], "the nodes are counted first");
        assert_eq!([disturbed(Kind::CqlStalled, 3), disturbed(Kind::NodeKilled, 0)], [None, None]);
    }
}
