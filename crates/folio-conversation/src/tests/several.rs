//! Several nodes on one store, with what they know of each other in a test's hand.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use folio_history::event::{CallView, Event};
use folio_history::thread::OpenTurnRow;
use folio_metering::UsageRecorder;
use folio_storage::{OpenTurnStore, SharedOptions, SharedStores, Stores};
use folio_storage_cql::CqlStore;
use folio_storage_embedded::{EmbeddedStore, Options as StoreOptions};
use folio_storage_redis::RedisOptions;
use folio_testkit::{Simulated, wait_for};
use folio_tools::Registry;
use folio_types::{Incarnation, Liveness, OrgId, Result, ThreadId, TurnId};
use tokio::sync::watch;

use super::sandbox::{Base, SOON, all, caller, pending, slots};
use super::script::Step;
use crate::failpoint::Action;
use crate::{Conversations, Dependencies, Failpoints, Options, Owners, SharedTurnStores};
use folio_history::command::ChatCommand;

/// Liveness of every node, by its number.
#[derive(Default)]
pub(super) struct NodeDirectory {
    nodes: Mutex<Vec<(Incarnation, Liveness)>>,
    running: Mutex<HashMap<Incarnation, Conversations>>,
    losses: watch::Sender<u64>,
}

/// The same, as one node sees it.
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
    async fn placed_here(&self, _org: &OrgId, _thread: &ThreadId) -> bool {
        let nodes = self.known.nodes.lock().unwrap();
        nodes.iter().find(|(_, liveness)| *liveness == Liveness::Live).is_some_and(|(node, _)| *node == self.me)
    }

    async fn node_died(&self) {
        self.losses.lock().await.changed().await.unwrap();
    }
}

/// A process that is stopped at a point, as by SIGSTOP, until it is continued.
#[derive(Default)]
pub(super) struct Stopper {
    point: Mutex<Option<String>>,
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Stopper {
    fn hit(&self, point: &str) -> Action {
        if self.point.lock().unwrap().as_deref() == Some(point) {
            // Other tasks of this runtime thread continue elsewhere: only the node stops.
            tokio::task::block_in_place(|| self.block_at(point));
        }
        Action::Pass
    }

    fn block_at(&self, point: &str) {
        let mut stopped = self.stopped.lock().unwrap();
        *stopped = true;
        while self.point.lock().unwrap().as_deref() == Some(point) {
            stopped = self.changed.wait_timeout(stopped, Duration::from_millis(20)).unwrap().0;
        }
        *stopped = false;
    }

    pub(super) fn stop_at(&self, point: &str) {
        *self.point.lock().unwrap() = Some(point.to_owned());
    }

    pub(super) fn go_on(&self) {
        *self.point.lock().unwrap() = None;
        self.changed.notify_all();
    }

    pub(super) async fn reached(&self) {
        wait_for("the node to stop", SOON, || async { self.stopped.lock().unwrap().then_some(()) }).await;
    }
}

/// The stores of the nodes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ground {
    /// The embedded store, with the shared stores in memory.
    Embedded,
    /// A CQL server and a Redis.
    Servers,
}

/// The servers of the test run. The keyspace is shared by all tests, so that a sweep sees its own organization only.
async fn servers(blobs: &EmbeddedStore, environment: &Arc<Simulated>, org: &OrgId) -> (Stores, SharedStores) {
    let (cql, redis) =
        tokio::task::spawn_blocking(|| (folio_test_servers::cql().unwrap(), folio_test_servers::redis_url().unwrap()))
            .await
            .unwrap();
    let options = folio_storage_cql::Options {
        keyspace: "folio_ownership".to_owned(),
        replication_factor: 1,
        environment: environment.clone(),
        ..folio_storage_cql::Options::at(cql.split(',').map(str::to_owned).collect())
    };
    let mut stores = CqlStore::open(options).await.unwrap().stores(blobs.stores().blobs);
    stores.open_turns = Arc::new(OfOrganization { inner: stores.open_turns, org: org.clone() });
    let prefix = format!("ownership:{org}");
    (stores, folio_storage_redis::shared_stores(RedisOptions { prefix, ..RedisOptions::at(redis) }).unwrap())
}

/// The open turns of one organization.
struct OfOrganization {
    inner: Arc<dyn OpenTurnStore>,
    org: OrgId,
}

#[async_trait]
impl OpenTurnStore for OfOrganization {
    async fn remove(&self, rows: &[OpenTurnRow]) -> Result<()> {
        self.inner.remove(rows).await
    }

    async fn scan(&self, after: Option<&OpenTurnRow>, limit: usize) -> Result<Vec<OpenTurnRow>> {
        let (mut found, mut last) = (Vec::new(), after.cloned());
        loop {
            let rows = self.inner.scan(last.as_ref(), limit).await?;
            let whole = rows.len() < limit;
            last = rows.last().cloned();
            found.extend(rows.into_iter().filter(|row| row.org == self.org));
            if whole || found.len() >= limit {
                found.truncate(limit);
                return Ok(found);
            }
        }
    }
}

pub(super) struct Node {
    pub(super) incarnation: Incarnation,
    pub(super) conversations: Conversations,
    pub(super) stopper: Arc<Stopper>,
}

pub(super) struct Several {
    pub(super) nodes: Vec<Node>,
    pub(super) known: Arc<NodeDirectory>,
    pub(super) shared: SharedStores,
    base: Base,
    /// Holds the bytes of documents on either ground.
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
        Self::start_on(Ground::Embedded, count).await
    }

    pub(super) async fn start_on(ground: Ground, count: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(StoreOptions::at(folder.path())).unwrap();
        let (environment, principal) = caller();
        let (stores, shared) = match ground {
            Ground::Embedded => {
                (store.stores(), folio_storage_memory::shared_stores(environment.clone(), SharedOptions::default()))
            }
            Ground::Servers => servers(&store, &environment, &principal.org).await,
        };
        let base = Base::new(stores, environment, principal).await;
        let mut several = Self { nodes: Vec::new(), known: Arc::default(), shared, base, store, _folder: folder };
        for _ in 0..count {
            several.join().await;
        }
        several
    }

    /// One more node joins; gives its number.
    pub(super) async fn join(&mut self) -> usize {
        self.join_with(None).await
    }

    /// The same with stores in which the node publishes its turns.
    pub(super) async fn join_with(&mut self, shared_turns: Option<SharedTurnStores>) -> usize {
        let incarnation = Incarnation::generate(&*self.environment);
        let stopper = Arc::new(Stopper::default());
        let points = stopper.clone();
        let dependencies = Dependencies {
            turn_slots: slots(&self.stores, self.shared.slots.clone()),
            stores: self.stores.clone(),
            models: self.models.clone(),
            meter: Arc::new(UsageRecorder::new(self.stores.usage.clone(), self.environment.clone())),
            tools: Registry::standard().unwrap(),
            environment: self.environment.clone(),
            incarnation: incarnation.clone(),
            owners: Arc::new(Seen {
                me: incarnation.clone(),
                known: self.known.clone(),
                losses: tokio::sync::Mutex::new(self.known.losses.subscribe()),
            }),
            shared_turns,
            failpoints: Failpoints::new(move |point| points.hit(point)),
        };
        self.known.nodes.lock().unwrap().push((incarnation.clone(), Liveness::Live));
        let options = Options { sweep_interval: Duration::from_millis(50), ..Options::default() };
        let conversations = Conversations::start(dependencies, options).await.unwrap();
        self.known.running.lock().unwrap().insert(incarnation.clone(), conversations.clone());
        self.nodes.push(Node { incarnation, conversations, stopper });
        self.nodes.len() - 1
    }

    /// Sets the liveness of a node as the other nodes see it.
    pub(super) fn say(&self, node: usize, liveness: Liveness) {
        self.known.nodes.lock().unwrap()[node].1 = liveness;
        if liveness == Liveness::Dead {
            self.known.losses.send_modify(|losses| *losses += 1);
        }
    }

    /// A node dies, and the others know.
    pub(super) async fn kill(&self, node: usize) {
        self.node(node).stop().await;
        self.say(node, Liveness::Dead);
    }

    pub(super) fn node(&self, node: usize) -> &Conversations {
        &self.nodes[node].conversations
    }

    /// Chats on a node and reads up to the closing event.
    pub(super) async fn run(&self, node: usize, command: ChatCommand) -> Vec<Event> {
        all(self.node(node).chat(&self.principal, command).await.unwrap()).await
    }

    /// Plays a turn on a node that pauses at these calls.
    pub(super) async fn pause_at(&self, node: usize, step: Step) -> (TurnId, Vec<CallView>) {
        self.models.then([step]);
        pending(&self.run(node, self.chat("please")).await)
    }

    /// Waits until no node runs the open turn of a thread.
    pub(super) async fn ended(&self, thread: &ThreadId) {
        wait_for("the open turn to end", SOON, || async {
            self.header(thread).await.open_turn.is_none().then_some(())
        })
        .await;
    }

    /// Returns the node that an error names as owner.
    pub(super) fn moved_to(&self, error: &folio_types::Error) -> Option<usize> {
        let owner = error.owner()?;
        self.nodes.iter().position(|node| node.incarnation == owner)
    }

    /// Checks that no actor, task, model request or scripted answer is left.
    pub(super) async fn finish(self) {
        let page = self.stores.threads.list(&self.principal.org, &Default::default(), &Default::default()).await;
        for thread in page.unwrap().items {
            let history = folio_history::History::fold(self.journal(&thread.id).await);
            for turn in history.turns().iter().filter(|turn| turn.ended.is_some()) {
                assert!(turn.rounds.iter().all(|round| round.unanswered().count() == 0), "invariant 4");
            }
        }
        for node in &self.nodes {
            node.stopper.go_on();
            node.conversations.drain(SOON).await;
            assert_eq!(node.conversations.snapshot().tasks, 0, "leaked tasks");
        }
        let Self { nodes, known, store, base, .. } = self;
        known.running.lock().unwrap().clear();
        drop((nodes, known, base));
        store.close().await;
    }
}
