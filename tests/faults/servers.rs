//! The store servers of a run. Each run has its own servers, because faults kill them.

use anyhow::{Context as _, Result};
use folio_test_servers::{Cassandra, Redis};

/// Redis and CQL servers. All functions block.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) redis: Redis,
    pub(super) cql: Cassandra,
    nodes: usize,
}

impl Servers {
    pub(super) fn start(nodes: usize) -> Result<Self> {
        let cql = Cassandra::start(nodes).context("the CQL server")?;
        Ok(Self { redis: Redis::start().context("Redis")?, cql, nodes })
    }

    pub(super) fn restart_redis(&mut self, lasts: std::time::Duration, emptied: bool) -> Result<()> {
        self.redis.kill();
        // The sleep is the duration of the fault.
        std::thread::sleep(lasts);
        if emptied { self.redis.run_emptied() } else { self.redis.run() }
    }

    pub(super) fn restart_cql(&mut self, target: usize, lasts: std::time::Duration) -> Result<()> {
        let node = self.cql.node(target % self.nodes).context("a CQL node")?;
        node.kill();
        // The sleep is the duration of the fault.
        std::thread::sleep(lasts);
        node.run()
    }
}
