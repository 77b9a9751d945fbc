//! Tests of the membership with a scripted store.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use folio_storage::MembershipSnapshot;
use folio_testkit::wait_for;

use super::*;

const SOON: Duration = Duration::from_secs(20);

#[derive(Default)]
struct ScriptedNodeStore {
    members: Mutex<Vec<ClusterNode>>,
    is_unavailable: AtomicBool,
    dead: Mutex<Vec<Incarnation>>,
    joined: Mutex<Vec<Incarnation>>,
}

impl ScriptedNodeStore {
    fn check(&self) -> Result<()> {
        match self.is_unavailable.load(Ordering::SeqCst) {
            true => Err(Error::unavailable(Reason::StoreUnavailable, "the store is unavailable")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl NodeStore for ScriptedNodeStore {
    async fn heartbeat(&self, node: &NodeRecord, joins: bool) -> Result<HeartbeatStatus> {
        self.check()?;
        if self.dead.lock().unwrap().contains(&node.incarnation) {
            return Ok(HeartbeatStatus::Dead);
        }
        if joins {
            self.joined.lock().unwrap().push(node.incarnation.clone());
        }
        let mut members = self.members.lock().unwrap();
        members.retain(|member| member.node.incarnation != node.incarnation);
        members.push(ClusterNode { node: node.clone(), silent_for: Duration::ZERO, is_dead: false });
        Ok(HeartbeatStatus::Live)
    }

    async fn leave(&self, node: &NodeRecord) -> Result<()> {
        self.check()?;
        self.members.lock().unwrap().retain(|member| member.node.incarnation != node.incarnation);
        Ok(())
    }

    async fn nodes(&self) -> Result<MembershipSnapshot> {
        self.check()?;
        let members = self.members.lock().unwrap().clone();
        Ok(MembershipSnapshot { members, available_for: SOON, dead_after: Duration::from_secs(5) })
    }
}

fn start(store: &Arc<ScriptedNodeStore>) -> Membership {
    let options = MembershipOptions { heartbeat: Duration::from_millis(10), store_timeout: Duration::from_millis(500) };
    Membership::start(store.clone(), options)
}

/// Returns the record of a node without conversations.
pub(crate) fn record(incarnation: &Incarnation, address: &str) -> NodeRecord {
    NodeRecord::new(incarnation.clone(), address, 100_000)
}

fn describe(incarnation: &Incarnation, draining: &Arc<AtomicBool>) -> Describe {
    let (incarnation, draining) = (incarnation.clone(), draining.clone());
    let draining = move || draining.load(Ordering::SeqCst);
    Arc::new(move || NodeRecord { draining: draining(), conversations: 3, ..record(&incarnation, "127.0.0.1:1") })
}

async fn wait_for_liveness(of: &Membership, incarnation: &Incarnation, liveness: Liveness) {
    wait_for("the expected liveness", SOON, || async { (of.liveness(incarnation) == liveness).then_some(()) }).await;
}

#[tokio::test]
async fn nodes_see_each_other_join_drain_and_leave() {
    let store = Arc::new(ScriptedNodeStore::default());
    let (one, other) = (start(&store), start(&store));
    let (incarnation, draining) = (Incarnation::derive(&["incarnation"]), Arc::new(AtomicBool::new(false)));
    one.join(incarnation.clone(), describe(&incarnation, &draining)).await;
    assert_eq!(store.members.lock().unwrap().len(), 1, "registered after the join");
    wait_for_liveness(&other, &incarnation, Liveness::Live).await;
    assert_eq!(other.live().borrow()[0].node.conversations, 3);
    draining.store(true, Ordering::SeqCst);
    one.announce().await;
    assert!(store.members.lock().unwrap()[0].node.draining, "published immediately");
    wait_for_liveness(&other, &incarnation, Liveness::Draining).await;
    one.leave().await;
    wait_for_liveness(&other, &incarnation, Liveness::Dead).await;
    assert_eq!(store.joined.lock().unwrap().len(), 1, "the incarnation joins once");
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn an_unavailable_store_neither_kills_nor_restarts_a_node() {
    let store = Arc::new(ScriptedNodeStore::default());
    let (one, other) = (start(&store), start(&store));
    let (incarnation, draining) = (Incarnation::derive(&["incarnation"]), Arc::default());
    one.join(incarnation.clone(), describe(&incarnation, &draining)).await;
    wait_for_liveness(&other, &incarnation, Liveness::Live).await;
    store.is_unavailable.store(true, Ordering::SeqCst);
    wait_for("the snapshot to be outdated", SOON, || async { (!other.is_store_available()).then_some(()) }).await;
    assert_eq!(other.liveness(&incarnation), Liveness::Live, "its threads stay where they are");
    assert_eq!(other.liveness(&Incarnation::derive(&["unknown"])), Liveness::Unknown, "takeovers wait");
    store.is_unavailable.store(false, Ordering::SeqCst);
    wait_for("a fresh snapshot", SOON, || async { other.is_store_available().then_some(()) }).await;
    wait_for_liveness(&other, &Incarnation::derive(&["unknown"]), Liveness::Dead).await;
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_node_that_counts_as_dead_is_notified_and_sends_no_heartbeat_until_it_rejoins() {
    let store = Arc::new(ScriptedNodeStore::default());
    let one = start(&store);
    let (incarnation, second, draining) =
        (Incarnation::derive(&["incarnation"]), Incarnation::derive(&["again"]), Arc::default());
    one.join(incarnation.clone(), describe(&incarnation, &draining)).await;
    store.members.lock().unwrap().clear();
    store.dead.lock().unwrap().push(incarnation.clone());
    tokio::time::timeout(SOON, one.declared_dead(&incarnation)).await.unwrap();
    assert!(store.members.lock().unwrap().is_empty());
    one.join(second.clone(), describe(&second, &draining)).await;
    wait_for_liveness(&one, &second, Liveness::Live).await;
    assert_eq!(*store.joined.lock().unwrap(), [incarnation, second]);
    one.stop().await;
}
