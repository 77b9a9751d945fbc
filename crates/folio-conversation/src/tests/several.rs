//! Several nodes on one store. A test sets the liveness that the nodes see of each other.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Mutex;

use async_trait::async_trait;
use folio_history::event::CallView;
use folio_storage::{SharedOptions, SharedStores};
use folio_storage_embedded::{EmbeddedStore, Options as StoreOptions};
use folio_types::{Incarnation, Liveness};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::sandbox::{Base, caller, pending};
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
struct Seen {
    me: Incarnation,
    known: Arc<NodeDirectory>,
    losses: tokio::sync::Mutex<watch::Receiver<u64>>,
}

#[async_trait]
impl Owners for Seen {
    fn liveness(&self, owner: &Incarnation) -> Liveness {
        assert_ne!(*owner, self.me, "the liveness of a node itself is never queried");
        let nodes = self.known.nodes.lock().unwrap();
        nodes.iter().find(|(node, _)| node == owner).map_or(Liveness::Dead, |(_, liveness)| *liveness)
    }

    async fn is_thread_active(&self, owner: &Incarnation, org: &OrgId, thread: &ThreadId) -> Result<bool> {
        let running = self.known.running.lock().unwrap();
        Ok(running.get(owner).is_some_and(|node| node.is_thread_active(org, thread)))
    }

    /// The first live node is responsible for every thread.
    async fn is_placed_here(&self, _org: &OrgId, _thread: &ThreadId) -> bool {
        let nodes = self.known.nodes.lock().unwrap();
        nodes.iter().find(|(_, liveness)| *liveness == Liveness::Live).is_some_and(|(node, _)| *node == self.me)
    }

    async fn wait_for_node_loss(&self) {
        self.losses.lock().await.changed().await.unwrap();
    }
}

pub(super) struct Node {
    pub(super) incarnation: Incarnation,
    pub(super) conversations: Conversations,
}

pub(super) struct Several {
    pub(super) nodes: Vec<Node>,
    pub(super) known: Arc<NodeDirectory>,
    pub(super) shared: SharedStores,
    base: Base,
    store: EmbeddedStore,
    _folder: tempfile::TempDir,
}

impl Deref for Several {
    type Target = Base;

    fn deref(&self) -> &Base {
        &self.base
    }
}

impl Several {
    pub(super) async fn start(count: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(StoreOptions::at(folder.path())).unwrap();
        let (environment, principal) = caller();
        let shared = folio_storage_memory::shared_stores(environment.clone(), SharedOptions::default());
        let base = Base::new(store.stores(), environment, principal).await;
        let mut several = Self { nodes: Vec::new(), known: Arc::default(), shared, base, store, _folder: folder };
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
        let owners = Arc::new(Seen {
            me: incarnation.clone(),
            known: self.known.clone(),
            losses: tokio::sync::Mutex::new(self.known.losses.subscribe()),
        });
        let dependencies = self.dependencies(incarnation.clone(), self.shared.slots.clone());
        let dependencies = Dependencies { owners, shared_turns, ..dependencies };
        self.known.nodes.lock().unwrap().push((incarnation.clone(), Liveness::Live));
        let options = Options { sweep_interval: Duration::from_millis(50), ..Options::default() };
        let conversations = Conversations::start(dependencies, options).await.unwrap();
        self.known.running.lock().unwrap().insert(incarnation.clone(), conversations.clone());
        self.nodes.push(Node { incarnation, conversations });
    }

    /// Sets the liveness of a node as the other nodes see it.
    pub(super) fn say(&self, node: usize, liveness: Liveness) {
        self.known.nodes.lock().unwrap()[node].1 = liveness;
        if liveness == Liveness::Dead {
            self.known.losses.send_modify(|losses| *losses += 1);
        }
    }

    /// Stops a node, and marks it as dead for the other nodes.
    pub(super) async fn kill(&self, node: usize) {
        self.node(node).stop().await;
        self.say(node, Liveness::Dead);
    }

    pub(super) fn node(&self, node: usize) -> &Conversations {
        &self.nodes[node].conversations
    }

    pub(super) async fn run(&self, node: usize, command: ChatCommand) -> Vec<Event> {
        all(self.node(node).chat(&self.principal, command).await.unwrap()).await
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
    pub(super) fn moved_to(&self, error: &folio_types::Error) -> Option<usize> {
        let owner = error.owner()?;
        self.nodes.iter().position(|node| node.incarnation == owner)
    }

    pub(super) async fn finish(self) {
        let page = self.stores.threads.list(&self.principal.org, &Default::default(), &Default::default()).await;
        for thread in page.unwrap().items {
            let history = folio_history::History::fold(self.journal(&thread.id).await);
            for turn in history.turns().iter().filter(|turn| turn.ended.is_some()) {
                assert!(turn.rounds.iter().all(|round| round.unanswered().count() == 0), "invariant 4");
            }
        }
        for node in &self.nodes {
            node.conversations.drain(SOON).await;
            assert_eq!(node.conversations.snapshot().tasks, 0, "leaked tasks");
        }
        let Self { nodes, known, store, base, .. } = self;
        known.running.lock().unwrap().clear();
        drop((nodes, known, base));
        store.close().await;
    }
}
