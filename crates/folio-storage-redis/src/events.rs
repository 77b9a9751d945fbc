//! The events of turns.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::event::{Event, EventKind};
use folio_types::{Incarnation, OrgId, Result, TurnId};
use redis::Script;

use super::connection::{Connection, encode, read};
use super::milliseconds;
use folio_storage::{EventsAppended, EventsRead, TurnEventStore};

pub(super) struct RedisEvents {
    connection: Arc<Connection>,
    append: Script,
    read: Script,
}

impl RedisEvents {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self {
            append: Script::new(include_str!("lua/events_append.lua")),
            read: Script::new(include_str!("lua/events_read.lua")),
            connection,
        }
    }

    fn keys(&self, org: &OrgId, turn: &TurnId) -> [String; 2] {
        let tag = format!("{org} {turn}");
        ["events:meta", "events"].map(|name| self.connection.key(&tag, name))
    }
}

#[async_trait]
impl TurnEventStore for RedisEvents {
    async fn append(
        &self,
        org: &OrgId,
        turn: &TurnId,
        owner: &Incarnation,
        epoch: u64,
        events: &[Event],
    ) -> Result<EventsAppended> {
        let shared = self.connection.shared();
        let [meta, list] = self.keys(org, turn);
        let mut call = self.append.key(meta);
        call.key(list).arg(epoch).arg(owner.as_str()).arg(shared.events_max).arg(shared.events_bytes_max);
        call.arg(milliseconds(shared.events_ttl));
        for event in events {
            let snapshot = matches!(event.kind, EventKind::Snapshot(_));
            call.arg(event.number).arg(u8::from(snapshot)).arg(encode(event)?);
        }
        let answer: Vec<u64> = self.connection.run(&call).await?;
        Ok(match answer.as_slice() {
            [2, epoch] => EventsAppended::Fenced { epoch: *epoch },
            [1, ..] => EventsAppended::NeedsSnapshot,
            _ => EventsAppended::Done,
        })
    }

    async fn read(&self, org: &OrgId, turn: &TurnId, from: u64, limit: usize) -> Result<EventsRead> {
        let [meta, list] = self.keys(org, turn);
        let mut call = self.read.key(meta);
        call.key(list).arg(from).arg(limit);
        let found: Option<Vec<String>> = self.connection.run(&call).await?;
        let Some(found) = found else { return Ok(EventsRead::Expired) };
        found.iter().map(|event| read(event)).collect::<Result<_>>().map(EventsRead::Events)
    }
}
