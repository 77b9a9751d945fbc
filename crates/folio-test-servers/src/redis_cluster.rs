//! A Redis Cluster of three primaries, optionally with a replica of each.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::cache::run_to_end;
use crate::ports;
use crate::redis::Redis;

const NODES: u16 = 3;

const READY_LIMIT: Duration = Duration::from_secs(60);

/// Three primaries that share the hash slots, and their replicas.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts a cluster without replicas on free ports.
    pub fn start() -> Result<Self> {
        Self::start_with(0)
    }

    /// Starts a cluster with a replica of each primary. The replicas are the nodes 3, 4 and 5, in any order.
    pub fn start_replicated() -> Result<Self> {
        Self::start_with(1)
    }

    fn start_with(replicas: u16) -> Result<Self> {
        let count = NODES * (1 + replicas);
        let first = ports::free(2 * count)?;
        let nodes = (0..count)
            .map(|number| {
                let bus = (first + count + number).to_string();
                let arguments = ["--cluster-enabled", "yes", "--cluster-node-timeout", "3000", "--cluster-port", &bus];
                Redis::start_at(first + number, &arguments.map(str::to_owned))
            })
            .collect::<Result<Vec<_>>>()?;
        let addresses = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port()));
        run_to_end(Command::new("redis-cli").args(["--cluster", "create"]).args(addresses).args([
            "--cluster-replicas",
            &replicas.to_string(),
            "--cluster-yes",
        ]))?;
        let cluster = Self { nodes };
        let end = Instant::now() + READY_LIMIT;
        while !cluster.is_converged() {
            if Instant::now() > end {
                bail!("a Redis Cluster did not form within {READY_LIMIT:?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(cluster)
    }

    /// Returns whether each node serves its slots and each replica is synchronized.
    pub fn is_converged(&self) -> bool {
        self.nodes.iter().all(is_converged)
    }

    pub fn nodes(&mut self) -> &mut [Redis] {
        &mut self.nodes
    }

    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }
}

fn is_converged(node: &Redis) -> bool {
    let linked = |info: String| !info.contains("role:slave") || info.contains("master_link_status:up");
    node.command("CLUSTER INFO").is_ok_and(|info| info.contains("cluster_state:ok") && info.contains("cluster_size:3"))
        && node.command("INFO replication").is_ok_and(linked)
}
