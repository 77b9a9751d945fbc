//! Nodes and their heartbeats.

use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;
use folio_types::{Incarnation, Result, Timestamp};

use super::{Context, locked, since};
use folio_storage::{ClusterNode, HeartbeatStatus, MembershipSnapshot, NodeRecord, NodeStore};

pub(super) struct MemoryNodes {
    context: Context,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: HashMap<Incarnation, NodeEntry>,
    /// The time of the last call, and the start of the current series of calls without a gap.
    calls: Option<(Timestamp, Timestamp)>,
}

struct NodeEntry {
    node: NodeRecord,
    last_heartbeat: Timestamp,
    dead_since: Option<Timestamp>,
}

impl State {
    fn answering_since(&mut self, now: Timestamp, context: &Context) -> Timestamp {
        let from = match self.calls {
            Some((last, from)) if since(last, now) <= context.options.dead_after / 2 => from,
            _ => now,
        };
        self.calls = Some((now, from));
        from
    }
}

impl NodeEntry {
    /// Marks the node as dead if it missed heartbeats for too long; returns whether it is dead.
    fn update_liveness(&mut self, from: Timestamp, now: Timestamp, context: &Context) -> bool {
        if self.dead_since.is_none() && since(self.last_heartbeat.max(from), now) > context.options.dead_after {
            self.dead_since = Some(now);
        }
        self.dead_since.is_some()
    }
}

impl MemoryNodes {
    pub(super) fn new(context: Context) -> Self {
        Self { context, state: Mutex::default() }
    }
}

#[async_trait]
impl NodeStore for MemoryNodes {
    async fn heartbeat(&self, node: &NodeRecord, joins: bool) -> Result<HeartbeatStatus> {
        let now = self.context.now();
        let mut state = locked(&self.state);
        let from = state.answering_since(now, &self.context);
        let is_dead = match state.nodes.get_mut(&node.incarnation) {
            Some(entry) => entry.update_liveness(from, now, &self.context),
            None => !joins && since(from, now) > self.context.options.dead_after,
        };
        if is_dead {
            return Ok(HeartbeatStatus::Dead);
        }
        state
            .nodes
            .insert(node.incarnation.clone(), NodeEntry { node: node.clone(), last_heartbeat: now, dead_since: None });
        Ok(HeartbeatStatus::Live)
    }

    async fn leave(&self, node: &NodeRecord) -> Result<()> {
        let now = self.context.now();
        let mut state = locked(&self.state);
        state.answering_since(now, &self.context);
        let fresh = || NodeEntry { node: node.clone(), last_heartbeat: now, dead_since: None };
        let entry = state.nodes.entry(node.incarnation.clone()).or_insert_with(fresh);
        entry.node = node.clone();
        entry.dead_since.get_or_insert(now);
        Ok(())
    }

    async fn nodes(&self) -> Result<MembershipSnapshot> {
        let (now, context) = (self.context.now(), &self.context);
        let mut state = locked(&self.state);
        let from = state.answering_since(now, context);
        state.nodes.retain(|_, entry| {
            entry.update_liveness(from, now, context);
            entry.dead_since.is_none_or(|dead_since| since(dead_since, now) <= context.options.dead_listed_for)
        });
        let members = state.nodes.values().map(|entry| ClusterNode {
            node: entry.node.clone(),
            silent_for: since(entry.last_heartbeat.max(from), now),
            is_dead: entry.dead_since.is_some(),
        });
        Ok(MembershipSnapshot {
            members: members.collect(),
            available_for: since(from, now),
            dead_after: context.options.dead_after,
        })
    }
}
