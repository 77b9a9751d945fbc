//! Nodes and their heartbeats.

use std::collections::HashMap;
use std::sync::Mutex;

use async_trait::async_trait;
use folio_types::{Incarnation, Result, Timestamp};

use super::{Context, locked, since};
use folio_storage::{Beat, Member, NodeRecord, NodeStore, Nodes};

pub(super) struct MemoryNodes {
    context: Context,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: HashMap<Incarnation, Known>,
    /// When it was last asked, and from when on without a gap.
    asked: Option<(Timestamp, Timestamp)>,
}

struct Known {
    node: NodeRecord,
    beat: Timestamp,
    gone: Option<Timestamp>,
}

impl State {
    fn answering_since(&mut self, now: Timestamp, context: &Context) -> Timestamp {
        let from = match self.asked {
            Some((last, from)) if since(last, now) <= context.options.gone_after / 2 => from,
            _ => now,
        };
        self.asked = Some((now, from));
        from
    }
}

impl Known {
    /// Makes a silence that is too long final.
    fn judge(&mut self, from: Timestamp, now: Timestamp, context: &Context) -> bool {
        if self.gone.is_none() && since(self.beat.max(from), now) > context.options.gone_after {
            self.gone = Some(now);
        }
        self.gone.is_some()
    }
}

impl MemoryNodes {
    pub(super) fn new(context: Context) -> Self {
        Self { context, state: Mutex::default() }
    }
}

#[async_trait]
impl NodeStore for MemoryNodes {
    async fn beat(&self, node: &NodeRecord, joins: bool) -> Result<Beat> {
        let now = self.context.now();
        let mut state = locked(&self.state);
        let from = state.answering_since(now, &self.context);
        let gone = match state.nodes.get_mut(&node.incarnation) {
            Some(known) => known.judge(from, now, &self.context),
            None => !joins && since(from, now) > self.context.options.gone_after,
        };
        if gone {
            return Ok(Beat::Gone);
        }
        state.nodes.insert(node.incarnation.clone(), Known { node: node.clone(), beat: now, gone: None });
        Ok(Beat::Kept)
    }

    async fn leave(&self, node: &NodeRecord) -> Result<()> {
        let now = self.context.now();
        let mut state = locked(&self.state);
        state.answering_since(now, &self.context);
        let fresh = || Known { node: node.clone(), beat: now, gone: None };
        let known = state.nodes.entry(node.incarnation.clone()).or_insert_with(fresh);
        known.node = node.clone();
        known.gone.get_or_insert(now);
        Ok(())
    }

    async fn nodes(&self) -> Result<Nodes> {
        let (now, context) = (self.context.now(), &self.context);
        let mut state = locked(&self.state);
        let from = state.answering_since(now, context);
        state.nodes.retain(|_, known| {
            known.judge(from, now, context);
            known.gone.is_none_or(|gone| since(gone, now) <= context.options.gone_shown)
        });
        let members = state.nodes.values().map(|known| Member {
            node: known.node.clone(),
            silent_for: since(known.beat.max(from), now),
            gone: known.gone.is_some(),
        });
        Ok(Nodes {
            members: members.collect(),
            answering_for: since(from, now),
            gone_after: context.options.gone_after,
        })
    }
}
