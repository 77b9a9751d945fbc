//! The membership with a scripted store.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use folio_storage::Nodes;
use folio_testkit::wait_for;
use folio_types::Timestamp;

use super::*;

const SOON: Duration = Duration::from_secs(20);

#[derive(Default)]
struct ScriptedNodeStore {
    members: Mutex<Vec<Member>>,
    is_unavailable: AtomicBool,
    dead: Mutex<Vec<Incarnation>>,
    joined: Mutex<Vec<Incarnation>>,
}

impl ScriptedNodeStore {
    fn check(&self) -> Result<()> {
        match self.is_unavailable.load(Ordering::SeqCst) {
            true => Err(Error::unavailable(Reason::StoreUnavailable, "away")),
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
        members.push(Member { node: node.clone(), silent_for: Duration::ZERO, is_dead: false });
        Ok(HeartbeatStatus::Live)
    }

    async fn leave(&self, node: &NodeRecord) -> Result<()> {
        self.check()?;
        self.members.lock().unwrap().retain(|member| member.node.incarnation != node.incarnation);
        Ok(())
    }

    async fn nodes(&self) -> Result<Nodes> {
        self.check()?;
        let members = self.members.lock().unwrap().clone();
        Ok(Nodes { members, answering_for: SOON, dead_after: Duration::from_secs(5) })
    }
}

fn start(hearts: &Arc<ScriptedNodeStore>) -> Membership {
    let options = MembershipOptions { heartbeat: Duration::from_millis(10), store_timeout: Duration::from_millis(500) };
    Membership::start(hearts.clone(), options)
}

fn describe(incarnation: &Incarnation, draining: &Arc<AtomicBool>) -> Describe {
    let (incarnation, draining) = (incarnation.clone(), draining.clone());
    Arc::new(move || NodeRecord {
        incarnation: incarnation.clone(),
        address: "127.0.0.1:1".to_owned(),
        draining: draining.load(Ordering::SeqCst),
        conversations: 3,
        turns_running: 1,
        capacity: 10,
        started_at: Timestamp::UNIX_EPOCH,
        version: "test".to_owned(),
    })
}

async fn wait_for_liveness(of: &Membership, who: &Incarnation, liveness: Liveness) {
    wait_for("the expected liveness", SOON, || async { (of.liveness(who) == liveness).then_some(()) }).await;
}

#[tokio::test]
async fn nodes_see_each_other_join_drain_and_leave() {
    let hearts = Arc::new(ScriptedNodeStore::default());
    let (one, other) = (start(&hearts), start(&hearts));
    let (me, draining) = (Incarnation::derive(&["me"]), Arc::new(AtomicBool::new(false)));
    one.join(me.clone(), describe(&me, &draining)).await;
    assert_eq!(hearts.members.lock().unwrap().len(), 1, "registered after the join");
    wait_for_liveness(&other, &me, Liveness::Live).await;
    assert_eq!(other.live().borrow()[0].node.conversations, 3);
    draining.store(true, Ordering::SeqCst);
    one.announce().await;
    assert!(hearts.members.lock().unwrap()[0].node.draining, "published immediately");
    wait_for_liveness(&other, &me, Liveness::Draining).await;
    one.leave().await;
    wait_for_liveness(&other, &me, Liveness::Dead).await;
    assert_eq!(hearts.joined.lock().unwrap().len(), 1, "it joins once");
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn an_unavailable_store_neither_kills_nor_restarts_a_node() {
    let hearts = Arc::new(ScriptedNodeStore::default());
    let (one, other) = (start(&hearts), start(&hearts));
    let (me, draining) = (Incarnation::derive(&["me"]), Arc::default());
    one.join(me.clone(), describe(&me, &draining)).await;
    wait_for_liveness(&other, &me, Liveness::Live).await;
    hearts.is_unavailable.store(true, Ordering::SeqCst);
    wait_for("the answer to be old", SOON, || async { (!other.answers()).then_some(()) }).await;
    assert_eq!(other.liveness(&me), Liveness::Live, "its threads stay where they are");
    assert_eq!(other.liveness(&Incarnation::derive(&["unknown"])), Liveness::Unknown, "takeovers wait");
    hearts.is_unavailable.store(false, Ordering::SeqCst);
    wait_for("an answer", SOON, || async { other.answers().then_some(()) }).await;
    assert_eq!(other.liveness(&Incarnation::derive(&["unknown"])), Liveness::Dead);
    one.stop().await;
    other.stop().await;
}

#[tokio::test]
async fn a_node_that_counts_as_dead_is_notified_and_sends_no_heartbeat_until_it_rejoins() {
    let hearts = Arc::new(ScriptedNodeStore::default());
    let one = start(&hearts);
    let (me, second, draining) = (Incarnation::derive(&["me"]), Incarnation::derive(&["again"]), Arc::default());
    one.join(me.clone(), describe(&me, &draining)).await;
    hearts.members.lock().unwrap().clear();
    hearts.dead.lock().unwrap().push(me.clone());
    tokio::time::timeout(SOON, one.declared_dead(&me)).await.unwrap();
    assert!(hearts.members.lock().unwrap().is_empty());
    one.join(second.clone(), describe(&second, &draining)).await;
    wait_for_liveness(&one, &second, Liveness::Live).await;
    assert_eq!(*hearts.joined.lock().unwrap(), [me, second]);
    one.stop().await;
}
