//! The store servers of a run. Each run has its own servers, because faults kill them.

use anyhow::{Context as _, Result};
use folio_test_servers::{Cassandra, CassandraNode, Redis};

/// The Redis server and the CQL servers. All functions block.
#[derive(Debug)]
pub(super) struct Servers {
    pub(super) redis: Redis,
    pub(super) cql: Cassandra,
    nodes: usize,
}

impl Servers {
    pub(super) fn start(nodes: usize) -> Result<Self> {
        let cql = Cassandra::start(nodes).context("cannot start the CQL servers")?;
        Ok(Self { redis: Redis::start().context("cannot start Redis")?, cql, nodes })
    }

    /// Returns the CQL server that a fault targets. `target` may exceed the number of servers: the remainder counts.
    pub(super) fn cql(&mut self, target: usize) -> Result<&mut CassandraNode> {
        self.cql.node(target % self.nodes).context("the CQL server does not exist")
    }

    /// Kills the CQL server that a fault targets, and starts it again after a time.
    pub(super) fn restart_cql(&mut self, target: usize, lasts: std::time::Duration) -> Result<()> {
        let node = self.cql(target)?;
        node.kill();
        // The sleep is the duration of the fault.
        std::thread::sleep(lasts);
        node.run()
    }
}
