//! Membership on the stores of heartbeats as they are: in memory, in Redis, in a Redis Cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use folio_cluster::{Membership, MembershipOptions};
use folio_storage::{NodeRecord, NodeStore, SharedOptions};
use folio_storage_redis::{RedisOptions, shared_stores};
use folio_test_servers::{Redis, RedisCluster};
use folio_testkit::wait_for;
use folio_types::{Incarnation, Liveness, System, Timestamp};

const SOON: Duration = Duration::from_secs(30);

/// Short times, so that a test sees them pass.
fn shared() -> SharedOptions {
    SharedOptions { dead_after: Duration::from_millis(2_000), ..SharedOptions::default() }
}

fn in_redis(urls: &str) -> Arc<dyn NodeStore> {
    shared_stores(RedisOptions { shared: shared(), ..RedisOptions::at(urls) }).unwrap().nodes
}

/// A node with its own view of the others.
struct Node {
    membership: Membership,
    me: Incarnation,
    draining: Arc<AtomicBool>,
}

impl Node {
    async fn join(store: &Arc<dyn NodeStore>, name: &str) -> Self {
        let options =
            MembershipOptions { heartbeat: Duration::from_millis(100), answer_within: Duration::from_millis(1_000) };
        let (me, draining) = (Incarnation::derive(&[name]), Arc::new(AtomicBool::new(false)));
        let membership = Membership::start(Arc::clone(store), options);
        let (incarnation, drains) = (me.clone(), Arc::clone(&draining));
        let describe = Arc::new(move || NodeRecord {
            incarnation: incarnation.clone(),
            address: "127.0.0.1:1".to_owned(),
            draining: drains.load(Ordering::SeqCst),
            conversations: 1,
            turns_running: 0,
            capacity: 10,
            started_at: Timestamp::UNIX_EPOCH,
            version: "test".to_owned(),
        });
        membership.join(me.clone(), describe).await;
        Self { membership, me, draining }
    }

    async fn sees(&self, other: &Incarnation, liveness: Liveness) {
        let seen = || async { (self.membership.liveness(other) == liveness).then_some(()) };
        wait_for(&format!("{liveness:?}"), SOON, seen).await;
    }
}

/// Nodes join, drain, leave and die without notice; the remaining nodes see it, and no live node counts as dead.
async fn nodes_come_and_go(store: Arc<dyn NodeStore>) {
    let (one, two, three) =
        (Node::join(&store, "one").await, Node::join(&store, "two").await, Node::join(&store, "three").await);
    for other in [&two, &three] {
        one.sees(&other.me, Liveness::Live).await;
    }
    two.draining.store(true, Ordering::SeqCst);
    two.membership.announce().await;
    one.sees(&two.me, Liveness::Draining).await;
    two.membership.leave().await;
    one.sees(&two.me, Liveness::Dead).await;
    // Dies without a word.
    three.membership.stop().await;
    assert_ne!(one.membership.liveness(&three.me), Liveness::Dead, "a short silence is no death");
    one.sees(&three.me, Liveness::Dead).await;
    let late = Node::join(&store, "late").await;
    late.sees(&one.me, Liveness::Live).await;
    late.sees(&three.me, Liveness::Dead).await;
    for node in [one, two, late] {
        node.membership.stop().await;
    }
}

#[tokio::test]
async fn nodes_join_and_leave_in_memory() {
    nodes_come_and_go(folio_storage_memory::shared_stores(Arc::new(System), shared()).nodes).await;
}

#[tokio::test]
async fn nodes_join_and_leave_in_redis() {
    let redis = Redis::start().unwrap();
    nodes_come_and_go(in_redis(&redis.url())).await;
}

#[tokio::test]
async fn nodes_join_and_leave_in_a_redis_cluster() {
    let cluster = RedisCluster::start().unwrap();
    nodes_come_and_go(in_redis(&cluster.urls().join(","))).await;
}

#[tokio::test]
async fn an_unavailable_or_empty_redis_makes_no_node_dead() {
    let mut redis = Redis::start().unwrap();
    let store = in_redis(&redis.url());
    let (one, two) = (Node::join(&store, "one").await, Node::join(&store, "two").await);
    let stranger = Incarnation::derive(&["unknown"]);
    one.sees(&two.me, Liveness::Live).await;
    one.sees(&stranger, Liveness::Dead).await;
    for emptied in [false, true] {
        redis.kill();
        wait_for("the answer to be old", SOON, || async { (!one.membership.answers()).then_some(()) }).await;
        assert_eq!(one.membership.liveness(&two.me), Liveness::Live, "its threads stay where they are");
        assert_eq!(one.membership.liveness(&stranger), Liveness::Unknown, "takeovers wait");
        match emptied {
            true => redis.run_emptied().unwrap(),
            false => redis.run().unwrap(),
        }
        wait_for("an answer", SOON, || async { one.membership.answers().then_some(()) }).await;
        // Past the time after which a silent node counts as dead.
        one.sees(&stranger, Liveness::Dead).await;
        for (node, other) in [(&one, &two), (&two, &one)] {
            node.sees(&other.me, Liveness::Live).await;
            assert_eq!(node.membership.liveness(&node.me), Liveness::Live);
        }
    }
    for node in [one, two] {
        node.membership.stop().await;
    }
}
