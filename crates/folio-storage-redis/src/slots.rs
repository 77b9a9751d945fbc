//! Slots.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use folio_types::{OrgId, Result};
use redis::Script;

use super::connection::Connection;
use super::milliseconds;
use folio_storage::SlotStore;

pub(super) struct RedisSlots {
    connection: Arc<Connection>,
    take: Script,
    sync: Script,
}

impl RedisSlots {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self {
            take: Script::new(include_str!("lua/slots_take.lua")),
            sync: Script::new(include_str!("lua/slots_sync.lua")),
            connection,
        }
    }

    fn key(&self, org: &OrgId, kind: &str) -> String {
        self.connection.key(org.as_str(), &format!("slots:{kind}"))
    }
}

#[async_trait]
impl SlotStore for RedisSlots {
    async fn take(&self, org: &OrgId, kind: &str, slot: &str, limit: u32) -> Result<bool> {
        let mut call = self.take.key(self.key(org, kind));
        call.arg(slot).arg(limit).arg(milliseconds(self.lease()));
        self.connection.run(&call).await
    }

    async fn sync(&self, org: &OrgId, kind: &str, renewed: &[String], freed: &[String]) -> Result<()> {
        let mut call = self.sync.key(self.key(org, kind));
        call.arg(milliseconds(self.lease())).arg(renewed.len()).arg(renewed).arg(freed);
        self.connection.run(&call).await
    }

    fn lease(&self) -> Duration {
        self.connection.shared().slot_lease
    }
}
