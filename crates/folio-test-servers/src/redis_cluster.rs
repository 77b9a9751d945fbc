//! A Redis Cluster of three processes without replicas.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::cache::finish;
use crate::ports;
use crate::redis::Redis;

const NODES: u16 = 3;

/// How long the nodes may take to find each other.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Three servers that share the slots.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts it on free ports.
    ///
    /// # Errors
    /// There is no `redis-server`, or the nodes do not find each other.
    pub fn start() -> Result<Self> {
        let first = ports::free(2 * NODES)?;
        let nodes = (0..NODES)
            .map(|number| {
                let bus = (first + NODES + number).to_string();
                let arguments = ["--cluster-enabled", "yes", "--cluster-node-timeout", "3000", "--cluster-port", &bus];
                Redis::start_at(first + number, &arguments.map(str::to_owned))
            })
            .collect::<Result<Vec<_>>>()?;
        let addresses = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port()));
        finish(Command::new("redis-cli").args(["--cluster", "create"]).args(addresses).args([
            "--cluster-replicas",
            "0",
            "--cluster-yes",
        ]))?;
        let cluster = Self { nodes };
        let end = Instant::now() + READY_LIMIT;
        while !cluster.nodes.iter().all(agrees) {
            if Instant::now() > end {
                bail!("the nodes of a Redis Cluster did not find each other within {READY_LIMIT:?}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(cluster)
    }

    /// The URLs of its nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    /// One of its nodes, to be killed or restarted.
    pub fn node(&mut self, number: usize) -> Option<&mut Redis> {
        self.nodes.get_mut(number)
    }
}

fn agrees(node: &Redis) -> bool {
    node.ask("CLUSTER INFO").is_ok_and(|info| info.contains("cluster_state:ok") && info.contains("cluster_size:3"))
}
