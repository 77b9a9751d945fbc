//! The states of open turns.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::{OrgId, Result, Timestamp, TurnId, UserId};
use redis::Script;

use super::connection::{Connection, encode, read};
use super::milliseconds;
use folio_storage::{SharedTurn, SharedTurnStore, TurnCursor};

/// Maximum number of states that one command removes.
const ERASE_BATCH: usize = 200;

pub(super) struct RedisTurns {
    connection: Arc<Connection>,
    publish: Script,
    states: Script,
}

impl RedisTurns {
    pub(super) fn new(connection: Arc<Connection>) -> Self {
        Self {
            publish: Script::new(include_str!("lua/turns_publish.lua")),
            states: Script::new(include_str!("lua/turns_states.lua")),
            connection,
        }
    }

    fn turn_key(&self, org: &OrgId, turn: &str) -> String {
        self.connection.key(org.as_str(), &format!("turn:{turn}"))
    }

    fn waiting_key(&self, org: &OrgId, requester: Option<&UserId>) -> String {
        let name = requester.map_or_else(|| "waiting".to_owned(), |requester| format!("waiting:{requester}"));
        self.connection.key(org.as_str(), &name)
    }
}

/// Returns the member of an index. Members are ordered by the start of the pause.
fn member(cursor: &TurnCursor) -> String {
    format!("{:015}:{}", cursor.paused_at.as_millisecond().max(0), cursor.turn)
}

#[async_trait]
impl SharedTurnStore for RedisTurns {
    async fn publish(&self, turn: &SharedTurn) -> Result<bool> {
        let ttl = turn.ttl(Timestamp::now(), self.connection.shared().idle_turn_ttl);
        let member = turn.cursor().as_ref().map(member).unwrap_or_default();
        let mut call = self.publish.key(self.turn_key(&turn.org, &turn.turn.to_string()));
        call.key(self.waiting_key(&turn.org, None)).key(self.waiting_key(&turn.org, Some(&turn.requester)));
        call.arg(turn.epoch).arg(turn.version).arg(encode(turn)?).arg(member).arg(milliseconds(ttl));
        self.connection.run(&call).await
    }

    async fn get(&self, org: &OrgId, turn: &TurnId) -> Result<Option<SharedTurn>> {
        let mut command = redis::cmd("HGET");
        command.arg(self.turn_key(org, &turn.to_string())).arg("state");
        let state: Option<String> = self.connection.query(&command).await?;
        state.map(|state| read(&state)).transpose()
    }

    async fn waiting(
        &self,
        org: &OrgId,
        requester: Option<&UserId>,
        after: Option<&TurnCursor>,
        limit: usize,
    ) -> Result<Vec<SharedTurn>> {
        let key = self.waiting_key(org, requester);
        let mut found = Vec::new();
        let mut from = after.map_or_else(|| "-".to_owned(), |last| format!("({}", member(last)));
        while found.len() < limit {
            let wanted = limit - found.len();
            let mut command = redis::cmd("ZRANGE");
            command.arg(&key).arg(&from).arg("+").arg("BYLEX").arg("LIMIT").arg(0).arg(wanted);
            let members: Vec<String> = self.connection.query(&command).await?;
            let Some(last) = members.last() else { break };
            from = format!("({last}");
            let mut call = self.states.key(&key);
            for member in &members {
                let turn = member.split_once(':').map_or("", |(_, turn)| turn);
                call.key(self.turn_key(org, turn)).arg(member);
            }
            let states: Vec<String> = self.connection.run(&call).await?;
            for state in &states {
                found.push(read(state)?);
            }
            if members.len() < wanted {
                break;
            }
        }
        Ok(found)
    }

    async fn erase(&self, org: &OrgId) -> Result<()> {
        loop {
            // `waiting` removes index members without a state.
            let batch = self.waiting(org, None, None, ERASE_BATCH).await?;
            let mut command = redis::cmd("DEL");
            if batch.is_empty() {
                return self.connection.query::<()>(command.arg(self.waiting_key(org, None))).await;
            }
            for turn in &batch {
                command
                    .arg(self.turn_key(org, &turn.turn.to_string()))
                    .arg(self.waiting_key(org, Some(&turn.requester)));
            }
            self.connection.query::<()>(&command).await?;
        }
    }
}
