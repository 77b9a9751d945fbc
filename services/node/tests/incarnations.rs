//! A node in a cluster: it joins, restarts if it counts as dead, drains and leaves.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use folio_cluster::{Membership, MembershipOptions, NodePeer as _, Peers};
use folio_conversation::SharedTurnStores;
use folio_documents::PageRenderer;
use folio_history::peer::ConversationPeer as _;
use folio_jobs::JobHints;
use folio_llm::{Catalogue, ModelError, ModelReply, ModelRequest, ModelStream, Models};
use folio_metering::UsageRecorder;
use folio_node::{ClusterParts, JobParts, Node, NodeParts, Options};
use folio_quotas::{QuotaCache, Slots};
use folio_resources::quota::Quotas;
use folio_storage::{HeartbeatStatus, MembershipSnapshot, NodeRecord, NodeStore, SharedOptions};
use folio_storage_embedded::{EmbeddedStore, Options as StoreOptions};
use folio_testkit::{Simulated, wait_for};
use folio_types::{Error, Liveness, OrgId, Principal, Reason, Result, Role, Secret, ThreadId, UserId};

const SOON: Duration = Duration::from_secs(20);

struct NoModels;

fn no_model() -> ModelError {
    ModelError::Failed("there is no model".to_owned())
}

#[async_trait]
impl Models for NoModels {
    async fn catalogue(&self, _org: &OrgId) -> Result<Arc<Catalogue>, Error> {
        Ok(Arc::default())
    }

    async fn stream(&self, _request: ModelRequest) -> Result<ModelStream, ModelError> {
        Err(no_model())
    }

    async fn complete(&self, _request: ModelRequest) -> Result<ModelReply, ModelError> {
        Err(no_model())
    }
}

/// Records each heartbeat before it is stored.
struct RecordingNodeStore {
    inner: Arc<dyn NodeStore>,
    records: Mutex<Vec<NodeRecord>>,
    left: Mutex<Vec<NodeRecord>>,
}

#[async_trait]
impl NodeStore for RecordingNodeStore {
    async fn heartbeat(&self, node: &NodeRecord, joins: bool) -> Result<HeartbeatStatus> {
        self.records.lock().unwrap().push(node.clone());
        self.inner.heartbeat(node, joins).await
    }

    async fn leave(&self, node: &NodeRecord) -> Result<()> {
        self.left.lock().unwrap().push(node.clone());
        self.inner.leave(node).await
    }

    async fn nodes(&self) -> Result<MembershipSnapshot> {
        self.inner.nodes().await
    }
}

#[tokio::test]
async fn a_node_that_counts_as_dead_restarts_as_another_incarnation_and_drains() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(StoreOptions::at(folder.path())).unwrap();
    let (stores, environment) = (store.stores(), Arc::new(Simulated::new(folio_testkit::seed())));
    let shared = folio_storage_memory::shared_stores(environment.clone(), SharedOptions::default());
    let recording =
        Arc::new(RecordingNodeStore { inner: shared.nodes, records: Mutex::default(), left: Mutex::default() });
    let pace = MembershipOptions { heartbeat: Duration::from_millis(10), ..MembershipOptions::default() };
    let membership = Membership::start(recording.clone(), pace);
    let wire = folio_cluster::Options {
        secrets: vec![Secret::new("the secret of a cluster in a test, 0123456789")],
        ..folio_cluster::Options::default()
    };
    let parts = NodeParts {
        clock: tokio::sync::watch::channel(true).1,
        turn_slots: Slots::of_turns(QuotaCache::new(stores.of(), Quotas::default()), shared.slots.clone()),
        meter: Arc::new(UsageRecorder::new(stores.usage.clone(), environment.clone())),
        pages: PageRenderer::new(stores.clone(), environment.clone(), folio_documents::Options::default()),
        stores: stores.clone(),
        models: Arc::new(NoModels),
        mcp: Arc::new(folio_tools::mcp::NoMcpServers),
        knowledge: None,
        environment: environment.clone(),
        extraction: folio_tools::extraction::Options::default(),
        auto_create: folio_tools::auto_create::Options::default(),
        jobs: JobParts {
            slots: shared.slots.clone(),
            hints: JobHints::new(shared.jobs),
            kinds: Vec::new(),
            conversations: None,
            limits: folio_history::job::JobLimits::default(),
        },
        shared_turns: SharedTurnStores { turns: shared.turns, events: Some(shared.events) },
        cluster: Some(ClusterParts {
            membership: membership.clone(),
            address: "127.0.0.1:7".to_owned(),
            peers: Peers::new(&wire, environment.clone()).unwrap(),
        }),
    };
    let node = Node::start(Options::default(), parts).await.unwrap();
    let first = node.incarnation();
    assert_eq!(membership.liveness(&first), Liveness::Live, "a member once it has started");
    let record = recording.records.lock().unwrap().last().unwrap().clone();
    assert_eq!((&record.incarnation, record.address.as_str()), (&first, "127.0.0.1:7"));

    // Simulates a node that is declared dead after a long pause.
    recording.inner.leave(&record).await.unwrap();
    wait_for("another incarnation", SOON, || async { (node.incarnation() != first).then_some(()) }).await;
    let second = node.incarnation();
    wait_for("the second incarnation to join", SOON, || async {
        (membership.liveness(&second) == Liveness::Live).then_some(())
    })
    .await;
    assert_eq!(node.status().await.unwrap().incarnation, second);
    let principal = Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member);
    let unknown = node.open_turn(&principal, &ThreadId::derive(&["t"])).await.unwrap_err();
    assert_eq!(unknown.reason, Reason::NotFound, "its conversations answer");

    node.drain(SOON).await;
    let records = recording.records.lock().unwrap().clone();
    assert!(
        records.iter().any(|records| records.draining && records.incarnation == second),
        "the new incarnation announces the drain first"
    );
    assert_eq!(recording.left.lock().unwrap().last().map(|left| left.incarnation.clone()), Some(second));
    membership.stop().await;
    drop((node, stores));
    store.close().await;
}
