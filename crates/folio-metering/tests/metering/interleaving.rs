//! Random interleavings of draw, reserve, settle, expiry, crash, close and top-up from several nodes, with lost replies
//! and late writes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use folio_credit::{Grant, GrantKind};
use folio_metering::{Escrow, Options};
use folio_storage::{CreditStore, UsageStore};
use folio_storage_conformance::faults::{Fault, decorate};
use folio_storage_cql::CqlStore;
use folio_storage_embedded::EmbeddedStore;
use folio_testkit::Simulated;
use folio_types::{GrantId, OrgId};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::task::JoinHandle;

use crate::checker;
use crate::memory::{Memory, Records};
use crate::node::{Node, World};
use crate::steps::{Fate, Issuer, ScheduledStore, Steps, Waiting};

/// Number of concurrent nodes.
const NODES: usize = 3;
/// Operations of a node before it stops and a new node replaces it.
const OPERATIONS_PER_NODE: usize = 12;

struct Run {
    world: Arc<World>,
    time: Arc<Simulated>,
    store: Arc<dyn CreditStore>,
    usage: Arc<dyn UsageStore>,
    steps: Arc<Steps>,
    random: StdRng,
    nodes: BTreeMap<usize, JoinHandle<()>>,
    next_node: usize,
}

impl Run {
    fn new(store: Arc<dyn CreditStore>, name: &str, seed: u64) -> Self {
        let time = Arc::new(Simulated::new(seed));
        let options = Options {
            block_credits: 10,
            block_credits_max: 40,
            block_seconds: Duration::from_secs(20),
            idle_seconds: Duration::from_secs(5),
            ..Options::default()
        };
        let org = OrgId::derive(&["credit", name, &seed.to_string()]);
        let world = Arc::new(World { org, environment: time.clone(), reserved_calls: Mutex::default(), options });
        let random = StdRng::seed_from_u64(seed);
        let usage = Arc::new(Records::default());
        Self { world, time, store, usage, steps: Arc::default(), random, nodes: BTreeMap::new(), next_node: 0 }
    }

    fn escrow(&self, store: Arc<dyn CreditStore>) -> Escrow {
        Escrow::new(store, Arc::clone(&self.usage), self.world.environment.clone())
    }

    fn begin_node(&mut self) {
        let number = self.next_node;
        self.next_node += 1;
        let store = ScheduledStore { inner: Arc::clone(&self.store), steps: Arc::clone(&self.steps), node: number };
        let escrow = self.escrow(Arc::new(store.clone()));
        let (node, live) = (Node::new(Arc::clone(&self.world), store, escrow, self.random.random()), self.steps.live());
        let task = tokio::spawn(async move {
            let _live = live;
            node.run(OPERATIONS_PER_NODE).await;
        });
        self.nodes.insert(number, task);
    }

    /// Executes one waiting operation with a random fate.
    async fn step(&mut self) {
        self.time.advance(Duration::from_millis(self.random.random_range(0..1_500)));
        while self.nodes.len() < NODES {
            self.begin_node();
        }
        let mut waiting = self.steps.all_wait().await;
        self.nodes.retain(|_, task| !task.is_finished());
        if waiting.is_empty() {
            return;
        }
        let Waiting { issuer, writes, fate_sender } = waiting.swap_remove(self.random.random_range(0..waiting.len()));
        let late = waiting.iter().filter(|other| other.issuer == Issuer::Late).count();
        self.steps.put_back(waiting);
        let fate = match (issuer, self.random.random_range(0..100)) {
            (Issuer::Late, _) => Fate::Done,
            (_, 0..4) => Fate::Never,
            (_, 4..8) if writes => Fate::AnswerLost,
            (_, 8..12) if writes && late < 4 => Fate::Later,
            _ => Fate::Done,
        };
        let _ = fate_sender.send(fate);
        if let Issuer::Node(number) = issuer
            && self.random.random_range(0..60) == 0
        {
            // The process crashes at this step. Its writes in flight may still be executed.
            let rest = self.steps.all_wait().await;
            let (in_flight, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|other| other.issuer == issuer);
            self.steps.put_back(others);
            if let Some(task) = self.nodes.remove(&number) {
                task.abort();
                let _ = task.await;
            }
            drop(in_flight);
        }
    }

    /// Kills the remaining processes, closes open blocks, executes late writes, and closes blocks again.
    async fn end(mut self) -> Result<(), String> {
        // The store executes a write even if its caller is cancelled: the check must not run concurrently with the last write.
        let waiting = self.steps.all_wait().await;
        self.steps.put_back(waiting);
        for task in std::mem::take(&mut self.nodes).into_values() {
            task.abort();
            let _ = task.await;
        }
        self.time.advance(Duration::from_secs(24 * 60 * 60));
        let escrow = self.escrow(Arc::clone(&self.store));
        escrow.reclaim(&self.world.org).await.map_err(|error| error.to_string())?;
        self.steps.drop_dead_tasks();
        for waiting in self.steps.all_wait().await {
            let _ = waiting.fate_sender.send(Fate::Done);
        }
        let _ = self.steps.all_wait().await;
        escrow.reclaim(&self.world.org).await.map_err(|error| error.to_string())?;
        let calls = self.world.reserved_calls.lock().unwrap().clone();
        checker::check_closed(self.store.as_ref(), &self.world.org, &calls).await
    }
}

/// Runs `steps` steps and checks the invariants after every `check_interval` steps. Returns the number of calls.
async fn run(
    store: Arc<dyn CreditStore>,
    (name, seed): (&str, u64),
    steps: usize,
    check_interval: usize,
) -> Result<usize, String> {
    let mut run = Run::new(store, name, seed);
    let escrow = run.escrow(Arc::clone(&run.store));
    let now = run.world.environment.now();
    let first = Grant::new(GrantId::derive(&["first"]), GrantKind::Admin, 40, now);
    escrow.grant(&run.world.org, first).await.map_err(|error| error.to_string())?;
    for step in 0..steps {
        run.step().await;
        if step % check_interval == 0 {
            checker::check_always(run.store.as_ref(), &run.world.org).await?;
        }
    }
    let world = Arc::clone(&run.world);
    run.end().await?;
    Ok(world.reserved_calls.lock().unwrap().len())
}

pub(crate) fn embedded() -> (tempfile::TempDir, EmbeddedStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folio_storage_embedded::Options::at(folder.path())).unwrap();
    (folder, store)
}

#[tokio::test]
async fn invariant_5_every_interleaving_keeps_the_sums_of_credit() {
    let seed = folio_testkit::seed();
    let mut calls = 0;
    for round in 0..100 {
        let seed = seed.wrapping_add(round);
        let outcome = run(Arc::new(Memory::default()), ("memory", seed), 300, 1).await;
        calls += outcome.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    assert!(calls > 500, "calls are made: {calls}");
}

#[tokio::test]
async fn invariant_5_the_embedded_store_keeps_the_sums_of_credit() {
    let seed = folio_testkit::seed();
    let (_folder, store) = embedded();
    let stores = store.stores();
    for round in 0..3 {
        let seed = seed.wrapping_add(round);
        let outcome = run(Arc::clone(&stores.credit), ("embedded", seed), 400, 10).await;
        outcome.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

/// The faults of `docs/protocol.md` that affect credit.
const FAULTS: [Fault; 3] = [Fault::SettlementRepeated, Fault::SealIgnored, Fault::AccountVersionIgnored];

#[tokio::test]
async fn the_checker_detects_every_credit_fault() {
    for fault in FAULTS {
        let (_folder, store) = embedded();
        let stores = decorate(&store.stores(), fault);
        let mut detected = None;
        for seed in 0..40 {
            detected = run(Arc::clone(&stores.credit), (fault.name(), seed), 400, 10).await.err();
            if detected.is_some() {
                println!("{} is detected with seed {seed}: {detected:?}", fault.name());
                break;
            }
        }
        assert!(detected.is_some(), "{} was not detected", fault.name());
    }
}

pub(crate) async fn cql() -> CqlStore {
    let servers = tokio::task::spawn_blocking(folio_test_servers::cql).await.unwrap().unwrap();
    let contact_points = servers.split(',').map(str::to_owned).collect();
    let options = folio_storage_cql::Options {
        keyspace: "folio_credit".to_owned(),
        replication_factor: 1,
        ..folio_storage_cql::Options::at(contact_points)
    };
    CqlStore::open(options).await.unwrap()
}

#[tokio::test]
async fn invariant_5_cql_keeps_the_sums_of_credit_and_shows_a_fault() {
    let (seed, cql) = (folio_testkit::seed(), cql().await);
    let (_folder, blobs) = embedded();
    let stores = cql.stores(blobs.stores().blobs);
    let name = format!("cql {}", folio_types::Timestamp::now().as_nanosecond());
    for round in 0..2 {
        let seed = seed.wrapping_add(round);
        let outcome = run(stores.credit.clone(), (&name, seed), 400, 20).await;
        outcome.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
    // The embedded store detects the other faults in less time, and the conformance suite detects them on CQL.
    let fault = Fault::SettlementRepeated;
    let stores = decorate(&cql.stores(blobs.stores().blobs), fault);
    let mut detected = false;
    for seed in 0..10 {
        let name = format!("{name} {}", fault.name());
        detected |= run(stores.credit.clone(), (&name, seed), 400, 20).await.is_err();
        if detected {
            break;
        }
    }
    assert!(detected, "{} was not detected", fault.name());
}
