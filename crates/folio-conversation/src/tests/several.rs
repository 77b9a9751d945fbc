//! Several nodes on one store. A test sets the liveness that the nodes see of each other.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Mutex;

use async_trait::async_trait;
use folio_history::event::CallView;
use folio_history::peer::EventStream;
use folio_storage::{SharedOptions, SharedStores};
use folio_types::{Incarnation, Liveness};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::sandbox::{Base, pending};
use super::*;
use crate::{Conversations, Dependencies, Owners, SharedTurnStores};

/// Liveness and conversations of all nodes.
#[derive(Default)]
pub(super) struct NodeDirectory {
    nodes: Mutex<Vec<(Incarnation, Liveness)>>,
    running: Mutex<HashMap<Incarnation, Conversations>>,
    losses: watch::Sender<u64>,
}

/// The [`NodeDirectory`] as one node sees it.
struct NodeView {
    own: Incarnation,
    directory: Arc<NodeDirectory>,
    losses: tokio::sync::Mutex<watch::Receiver<u64>>,
}

#[async_trait]
impl Owners for NodeView {
    fn liveness(&self, owner: &Incarnation) -> Liveness {
        assert_ne!(*owner, self.own, "the liveness of a node itself is never queried");
        let nodes = self.directory.nodes.lock().unwrap();
        nodes.iter().find(|(node, _)| node == owner).map_or(Liveness::Dead, |(_, liveness)| *liveness)
    }

    async fn is_thread_active(&self, owner: &Incarnation, org: &OrgId, thread: &ThreadId) -> Result<bool> {
        let running = self.directory.running.lock().unwrap();
        Ok(running.get(owner).is_some_and(|node| node.is_thread_active(org, thread)))
    }

    /// The first live node is responsible for every thread.
    async fn is_placed_here(&self, _org: &OrgId, _thread: &ThreadId) -> bool {
        let nodes = self.directory.nodes.lock().unwrap();
        nodes.iter().find(|(_, liveness)| *liveness == Liveness::Live).is_some_and(|(node, _)| *node == self.own)
    }

    async fn wait_for_node_loss(&self) {
        self.losses.lock().await.changed().await.unwrap();
    }
}

pub(super) struct Node {
    pub(super) incarnation: Incarnation,
    pub(super) conversations: Conversations,
}

pub(super) struct MultiNode {
    pub(super) nodes: Vec<Node>,
    pub(super) directory: Arc<NodeDirectory>,
    pub(super) shared: SharedStores,
    base: Base,
}

impl Deref for MultiNode {
    type Target = Base;

    fn deref(&self) -> &Base {
        &self.base
    }
}

impl MultiNode {
    pub(super) async fn start(count: usize) -> Self {
        let base = Base::new(None).await;
        let shared = folio_storage_memory::shared_stores(base.environment.clone(), SharedOptions::default());
        let mut several = Self { nodes: Vec::new(), directory: Arc::default(), shared, base };
        for _ in 0..count {
            several.join().await;
        }
        several
    }

    pub(super) async fn join(&mut self) {
        self.join_with(None).await;
    }

    /// Joins a node that publishes its turns in these stores.
    pub(super) async fn join_with(&mut self, shared_turns: Option<SharedTurnStores>) {
        let incarnation = Incarnation::generate(&*self.environment);
        let owners = Arc::new(NodeView {
            own: incarnation.clone(),
            directory: self.directory.clone(),
            losses: tokio::sync::Mutex::new(self.directory.losses.subscribe()),
        });
        let dependencies = self.dependencies(incarnation.clone(), self.shared.slots.clone());
        let dependencies = Dependencies { owners, shared_turns, ..dependencies };
        self.directory.nodes.lock().unwrap().push((incarnation.clone(), Liveness::Live));
        let options = Options { sweep_interval: Duration::from_millis(50), ..Options::default() };
        let conversations = Conversations::start(dependencies, options).await.unwrap();
        self.directory.running.lock().unwrap().insert(incarnation.clone(), conversations.clone());
        self.nodes.push(Node { incarnation, conversations });
    }

    /// Sets the liveness of a node as the other nodes see it.
    pub(super) fn set_liveness(&self, node: usize, liveness: Liveness) {
        self.directory.nodes.lock().unwrap()[node].1 = liveness;
        if liveness == Liveness::Dead {
            self.directory.losses.send_modify(|losses| *losses += 1);
        }
    }

    /// Stops a node, and marks it as dead for the other nodes.
    pub(super) async fn kill(&self, node: usize) {
        self.node(node).stop().await;
        self.set_liveness(node, Liveness::Dead);
    }

    pub(super) fn node(&self, node: usize) -> &Conversations {
        &self.nodes[node].conversations
    }

    pub(super) async fn begin(&self, node: usize, command: ChatCommand) -> EventStream {
        self.node(node).chat(&self.principal, command).await.unwrap()
    }

    pub(super) async fn run(&self, node: usize, command: ChatCommand) -> Vec<Event> {
        all(self.begin(node, command).await).await
    }

    /// Runs a turn on a node until it pauses at these calls.
    pub(super) async fn pause_at(&self, node: usize, step: Step) -> (TurnId, Vec<CallView>) {
        self.models.then([step]);
        pending(&self.run(node, self.chat("please")).await)
    }

    pub(super) async fn approve(&self, node: usize, command: ApproveCommand) -> Result<ApproveAnswer> {
        self.node(node).approve(&self.principal, command).await
    }

    pub(super) fn spawn_approve(&self, node: usize, command: ApproveCommand) -> JoinHandle<Result<ApproveAnswer>> {
        let (node, principal) = (self.node(node).clone(), self.principal.clone());
        tokio::spawn(async move { node.approve(&principal, command).await })
    }

    /// Returns the node that an error names as owner.
    pub(super) fn moved_to(&self, error: &Error) -> Option<usize> {
        let owner = error.owner()?;
        self.nodes.iter().position(|node| node.incarnation == owner)
    }

    pub(super) async fn finish(self) {
        for thread in self.threads().await {
            self.assert_sendable(&thread.id).await;
        }
        for node in &self.nodes {
            node.conversations.drain(SOON).await;
            assert_eq!(node.conversations.snapshot().tasks, 0, "leaked tasks");
        }
        let Self { nodes, directory, base, .. } = self;
        directory.running.lock().unwrap().clear();
        drop((nodes, directory));
        base.close().await;
    }
}
