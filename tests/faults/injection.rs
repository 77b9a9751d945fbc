//! Injection of faults into a running cluster.

use std::time::Duration;

use anyhow::Result;
use folio_testkit::proxy::{Mode, Proxy};

use super::schedule::{Fault, Kind};
use super::servers::Servers;
use crate::harness::cluster::{Cluster, Member};

/// Failpoints for `NodeKilledAtStep`.
const STEPS: &str = "accept:after pause:before pause:after decide:before decide:after intent:before intent:after \
                     write:before write:after outcome:before outcome:after model:before model:after end:before end:after \
                     resume:after";

/// Timeout for a process to reach its failpoint.
const REACHED_WITHIN: Duration = Duration::from_secs(6);

/// Injects one fault and repairs its damage.
pub(super) async fn inject(cluster: &mut Cluster, servers: Servers, fault: Fault) -> (Servers, Result<()>) {
    let lasts = fault.lasts;
    let nodes = cluster.nodes.len();
    let node = &mut cluster.nodes[fault.target % nodes];
    match fault.kind {
        Kind::NodeKilled => {
            node.kill();
            wait(lasts).await;
            node.start(&[]).await;
        }
        Kind::NodeKilledAtStep => kill_at_step(node, fault).await,
        Kind::NodeStopped => {
            node.process().pause();
            wait(lasts).await;
            node.process().resume();
        }
        Kind::NodeDrained => drain(node).await,
        Kind::GatewayKilled => {
            let gateways = cluster.gateways.len();
            let gateway = &mut cluster.gateways[fault.target % gateways];
            gateway.kill();
            wait(lasts).await;
            gateway.start(&[]).await;
        }
        Kind::RedisEmptied => {
            let result = servers.redis.command("FLUSHALL").map(drop);
            return (servers, result);
        }
        Kind::RedisRestarted | Kind::RedisLost | Kind::CqlRestarted => return restart(servers, fault).await,
        Kind::NodeCut => cut(&node.listener_proxy, &[(Mode::Cut, lasts)]).await,
        Kind::RedisCut => cut(&node.redis, &[(Mode::Cut, lasts)]).await,
        Kind::ResponsesLost => cut(&node.cql, &[(Mode::Mute, lasts), (Mode::Cut, Duration::from_millis(100))]).await,
        Kind::ClockJumped => {
            std::fs::write(&node.clock, "2678400").expect("the clock's file is written");
            wait(lasts).await;
            std::fs::write(&node.clock, "0").expect("the clock's file is written");
        }
        Kind::CqlStalled => cut(&node.cql, &[(Mode::Stall, lasts)]).await,
    }
    (servers, Ok(()))
}

async fn wait(time: Duration) {
    // The sleep is the duration of the fault.
    tokio::time::sleep(time).await;
}

async fn cut(proxy: &Proxy, modes: &[(Mode, Duration)]) {
    for (mode, lasts) in modes {
        proxy.set(*mode);
        wait(*lasts).await;
    }
    proxy.set(Mode::Pass);
}

/// Restarts the node with a failpoint.
async fn kill_at_step(node: &mut Member, fault: Fault) {
    let steps: Vec<&str> = STEPS.split(' ').collect();
    let step = steps[fault.target / 7 % steps.len()];
    node.kill();
    // The node may reach the failpoint before it listens.
    let _ = node.try_start(&[("FOLIO_FAILPOINT", step)]).await;
    let end = tokio::time::Instant::now() + REACHED_WITHIN;
    while node.is_up() && tokio::time::Instant::now() < end {
        wait(Duration::from_millis(20)).await;
    }
    let result = if node.is_up() { "did not die" } else { "died" };
    println!("  node {} {result} at {step}", node.number);
    node.kill();
    wait(fault.lasts).await;
    node.start(&[]).await;
}

async fn drain(node: &mut Member) {
    let Some(process) = node.take() else { return };
    println!("  node {} exited with status 0: {}", node.number, process.stop().await);
    node.start(&[]).await;
}

async fn restart(mut servers: Servers, fault: Fault) -> (Servers, Result<()>) {
    let restarted = tokio::task::spawn_blocking(move || {
        let result = match fault.kind {
            Kind::CqlRestarted => servers.restart_cql(fault.target, fault.lasts),
            kind => servers.restart_redis(fault.lasts, kind == Kind::RedisLost),
        };
        (servers, result)
    });
    restarted.await.expect("the restart does not panic")
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
