//! The store servers of a run. Each run has its own servers, because faults kill them.

use anyhow::{Context as _, Result};
use folio_test_servers::{Cassandra, CassandraNode, Redis};

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

    /// Returns a CQL server by a number that may exceed their number.
    pub(super) fn cql(&mut self, target: usize) -> Result<&mut CassandraNode> {
        self.cql.node(target % self.nodes).context("a CQL node")
    }

    pub(super) fn restart_cql(&mut self, target: usize, lasts: std::time::Duration) -> Result<()> {
        let node = self.cql(target)?;
        node.kill();
        // The sleep is the duration of the fault.
        std::thread::sleep(lasts);
        node.run()
    }
}
