//! The states of open turns.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;

use async_trait::async_trait;
use folio_types::{OrgId, Result, Timestamp, TurnId, UserId};

use super::{Context, locked};
use folio_storage::{SharedTurn, SharedTurnStore, TurnCursor};

pub(super) struct MemoryTurns {
    context: Context,
    state: Mutex<State>,
}

type Key = (OrgId, String);

#[derive(Default)]
struct State {
    /// States with their times of expiry.
    turns: HashMap<Key, (SharedTurn, Timestamp)>,
    /// All states, ordered by time of expiry.
    until: BTreeSet<(Timestamp, Key)>,
    /// The user that started each waiting turn. Ordered by the start of the pause.
    waiting: BTreeMap<(OrgId, Timestamp, String), UserId>,
}

impl State {
    fn remove(&mut self, key: &Key) {
        let Some((turn, expires_at)) = self.turns.remove(key) else { return };
        self.until.remove(&(expires_at, key.clone()));
        if let Some(TurnCursor { paused_at, .. }) = turn.cursor() {
            self.waiting.remove(&(key.0.clone(), paused_at, key.1.clone()));
        }
    }

    fn prune(&mut self, now: Timestamp) {
        while let Some((_, key)) = self.until.first().filter(|(at, _)| *at < now).cloned() {
            self.remove(&key);
        }
    }
}

impl MemoryTurns {
    pub(super) fn new(context: Context) -> Self {
        Self { context, state: Mutex::default() }
    }
}

#[async_trait]
impl SharedTurnStore for MemoryTurns {
    async fn publish(&self, turn: &SharedTurn) -> Result<bool> {
        let now = self.context.now();
        let mut state = locked(&self.state);
        state.prune(now);
        let key = (turn.org.clone(), turn.turn.to_string());
        if let Some((old, _)) = state.turns.get(&key)
            && (old.epoch, old.version) > (turn.epoch, turn.version)
        {
            return Ok(false);
        }
        state.remove(&key);
        let ttl = turn.ttl(now, self.context.options.idle_turn_ttl);
        let expires = now.saturating_add(ttl).unwrap_or(Timestamp::MAX);
        state.until.insert((expires, key.clone()));
        if let Some(TurnCursor { paused_at, .. }) = turn.cursor() {
            state.waiting.insert((key.0.clone(), paused_at, key.1.clone()), turn.requester.clone());
        }
        state.turns.insert(key, (turn.clone(), expires));
        Ok(true)
    }

    async fn get(&self, org: &OrgId, turn: &TurnId) -> Result<Option<SharedTurn>> {
        let mut state = locked(&self.state);
        state.prune(self.context.now());
        Ok(state.turns.get(&(org.clone(), turn.to_string())).map(|(turn, _)| turn.clone()))
    }

    async fn waiting(
        &self,
        org: &OrgId,
        requester: Option<&UserId>,
        after: Option<&TurnCursor>,
        limit: usize,
    ) -> Result<Vec<SharedTurn>> {
        let mut state = locked(&self.state);
        state.prune(self.context.now());
        let from = match after {
            Some(last) => (org.clone(), last.paused_at, last.turn.to_string()),
            None => (org.clone(), Timestamp::MIN, String::new()),
        };
        let range = (std::ops::Bound::Excluded(from), std::ops::Bound::Unbounded);
        let entries = state.waiting.range(range).take_while(|((of, _, _), _)| of == org);
        let of_requester =
            entries.filter(|(_, requester_of_turn)| requester.is_none_or(|requester| requester == *requester_of_turn));
        let turns = of_requester.filter_map(|((org, _, turn), _)| state.turns.get(&(org.clone(), turn.clone())));
        Ok(turns.take(limit).map(|(turn, _)| turn.clone()).collect())
    }

    async fn erase(&self, org: &OrgId) -> Result<()> {
        let mut state = locked(&self.state);
        let from = (org.clone(), Timestamp::MIN, String::new());
        let waiting = state.waiting.range(from..).take_while(|((of, _, _), _)| of == org);
        let keys: Vec<Key> = waiting.map(|((org, _, turn), _)| (org.clone(), turn.clone())).collect();
        keys.iter().for_each(|key| state.remove(key));
        Ok(())
    }
}
