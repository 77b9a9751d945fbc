//! Nodes and their heartbeats.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::Result;
use redis::{FromRedisValue as _, Script, Value};

use super::connection::{Connection, encode, read};
use super::milliseconds;
use folio_storage::{ClusterNode, HeartbeatStatus, MembershipSnapshot, NodeRecord, NodeStore};

/// Time to live of the key `nodes` after the last script that accessed it, in milliseconds.
const TTL_MS: u64 = 3_600_000;

pub(super) struct RedisNodes {
    connection: Arc<Connection>,
    heartbeat: Script,
    leave: Script,
    read: Script,
}

impl RedisNodes {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        let clock = include_str!("lua/nodes_clock.lua");
        let with_clock = |text: &str| Script::new(&format!("{clock}\n{text}"));
        Self {
            heartbeat: with_clock(include_str!("lua/nodes_heartbeat.lua")),
            leave: with_clock(include_str!("lua/nodes_leave.lua")),
            read: with_clock(include_str!("lua/nodes_read.lua")),
            connection,
        }
    }

    fn key(&self) -> String {
        self.connection.key("nodes", "")
    }

    fn dead_after(&self) -> u64 {
        milliseconds(self.connection.shared().dead_after)
    }
}

#[async_trait]
impl NodeStore for RedisNodes {
    async fn heartbeat(&self, node: &NodeRecord, joins: bool) -> Result<HeartbeatStatus> {
        let mut call = self.heartbeat.key(self.key());
        call.arg(node.incarnation.as_str()).arg(encode(node)?).arg(u8::from(joins)).arg(self.dead_after()).arg(TTL_MS);
        let is_live: bool = self.connection.run(&call).await?;
        Ok(if is_live { HeartbeatStatus::Live } else { HeartbeatStatus::Dead })
    }

    async fn leave(&self, node: &NodeRecord) -> Result<()> {
        let mut call = self.leave.key(self.key());
        call.arg(node.incarnation.as_str()).arg(encode(node)?).arg(self.dead_after()).arg(TTL_MS);
        self.connection.run::<()>(&call).await
    }

    async fn nodes(&self) -> Result<MembershipSnapshot> {
        let shared = self.connection.shared();
        let mut call = self.read.key(self.key());
        call.arg(self.dead_after()).arg(milliseconds(shared.dead_listed_for)).arg(TTL_MS);
        let mut found = self.connection.run::<Vec<Value>>(&call).await?.into_iter();
        let available_for = found.next().and_then(|value| u64::from_redis_value(value).ok()).unwrap_or(0);
        let members = found.filter_map(|value| {
            let (record, silent, is_dead) = <(String, u64, bool)>::from_redis_value(value).ok()?;
            // Skips a node whose record was written by another build in an unknown format.
            let node = read(&record).ok()?;
            Some(ClusterNode { node, silent_for: Duration::from_millis(silent), is_dead })
        });
        Ok(MembershipSnapshot {
            members: members.collect(),
            available_for: Duration::from_millis(available_for),
            dead_after: shared.dead_after,
        })
    }
}
