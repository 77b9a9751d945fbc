//! Nodes and their heartbeats.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::Result;
use redis::{FromRedisValue as _, Script, Value};

use super::connection::{Connection, read, written};
use super::milliseconds;
use folio_storage::{Beat, Member, NodeRecord, NodeStore, Nodes};

/// How long the key lives after the last call.
const TTL_MS: u64 = 3_600_000;

pub(super) struct RedisNodes {
    connection: Arc<Connection>,
    beat: Script,
    leave: Script,
    read: Script,
}

impl RedisNodes {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        let clock = include_str!("lua/nodes_clock.lua");
        let with_clock = |text: &str| Script::new(&format!("{clock}\n{text}"));
        Self {
            beat: with_clock(include_str!("lua/nodes_beat.lua")),
            leave: with_clock(include_str!("lua/nodes_leave.lua")),
            read: with_clock(include_str!("lua/nodes_read.lua")),
            connection,
        }
    }

    fn key(&self) -> String {
        self.connection.key("nodes", "")
    }

    fn gone_after(&self) -> u64 {
        milliseconds(self.connection.shared().gone_after)
    }
}

#[async_trait]
impl NodeStore for RedisNodes {
    async fn beat(&self, node: &NodeRecord, joins: bool) -> Result<Beat> {
        let mut call = self.beat.key(self.key());
        call.arg(node.incarnation.as_str()).arg(written(node)?).arg(u8::from(joins)).arg(self.gone_after()).arg(TTL_MS);
        let kept: bool = self.connection.run(&call).await?;
        Ok(if kept { Beat::Kept } else { Beat::Gone })
    }

    async fn leave(&self, node: &NodeRecord) -> Result<()> {
        let mut call = self.leave.key(self.key());
        call.arg(node.incarnation.as_str()).arg(written(node)?).arg(self.gone_after()).arg(TTL_MS);
        self.connection.run::<()>(&call).await
    }

    async fn nodes(&self) -> Result<Nodes> {
        let shared = self.connection.shared();
        let mut call = self.read.key(self.key());
        call.arg(self.gone_after()).arg(milliseconds(shared.gone_shown)).arg(TTL_MS);
        let mut found = self.connection.run::<Vec<Value>>(&call).await?.into_iter();
        let answering_for = found.next().and_then(|value| u64::from_redis_value(value).ok()).unwrap_or(0);
        let members = found.filter_map(|value| {
            let (record, silent, gone) = <(String, u64, bool)>::from_redis_value(value).ok()?;
            // A node of a build that says other things is not known here.
            let node = read(&record).ok()?;
            Some(Member { node, silent_for: Duration::from_millis(silent), gone })
        });
        Ok(Nodes {
            members: members.collect(),
            answering_for: Duration::from_millis(answering_for),
            gone_after: shared.gone_after,
        })
    }
}
