//! Conformance suite of [`folio_storage::NodeStore`]. A new store (younger than `dead_after`) may have lost nodes.

use std::time::{Duration, Instant};

use folio_types::Incarnation;

use super::super::{Failure, Outcome, check, same};
use super::eventually;
use folio_storage::{ClusterNode, HeartbeatStatus, NodeRecord, SharedStores};

fn node(nonce: &str, name: &str) -> NodeRecord {
    let idle = NodeRecord::new(Incarnation::derive(&[nonce, name]), format!("http://127.0.0.1:1/{name}"), 10);
    NodeRecord { conversations: 3, busy_conversations: 1, version: "1".to_owned(), ..idle }
}

async fn found(stores: &SharedStores, node: &NodeRecord) -> Result<Option<ClusterNode>, Failure> {
    let nodes = stores.nodes.nodes().await?;
    Ok(nodes.members.into_iter().find(|member| member.node.incarnation == node.incarnation))
}

pub(super) async fn suite(stores: &SharedStores, nonce: &str) -> Outcome {
    let (mut living, silent, leaver, unknown) =
        (node(nonce, "living"), node(nonce, "silent"), node(nonce, "leaver"), node(nonce, "unknown"));
    let started_at = Instant::now();
    for node in [&living, &silent, &leaver] {
        same!(stores.nodes.heartbeat(node, true).await?, HeartbeatStatus::Live, "the first heartbeat");
    }
    let nodes = stores.nodes.nodes().await?;
    for node in [&living, &silent, &leaver] {
        check!(!nodes.is_dead(&node.incarnation), "{node:?} is dead at once");
        check!(nodes.live().any(|member| member.node == *node), "{node:?} differs from its heartbeat");
    }
    let is_new_store = nodes.available_for <= nodes.dead_after;
    check!(nodes.is_dead(&unknown.incarnation) != is_new_store, "wrong liveness of an unlisted node");

    stores.nodes.leave(&leaver).await?;
    check!(stores.nodes.nodes().await?.is_dead(&leaver.incarnation), "a node that left is live");
    for joins in [false, true] {
        same!(
            stores.nodes.heartbeat(&leaver, joins).await?,
            HeartbeatStatus::Dead,
            "a late heartbeat of a node that left"
        );
    }

    // After a loss of data, a node registers again while the store is new.
    let returned = node(nonce, "returned");
    let status = stores.nodes.heartbeat(&returned, false).await?;
    let nodes = stores.nodes.nodes().await?;
    let is_new_store = nodes.available_for < nodes.dead_after;
    check!(!is_new_store || status == HeartbeatStatus::Live, "an unlisted node is refused by a new store");

    (living.draining, living.conversations) = (true, 4);
    eventually("a silent node is dead", async || {
        same!(stores.nodes.heartbeat(&living, false).await?, HeartbeatStatus::Live, "a heartbeat in time");
        let is_dead = stores.nodes.nodes().await?.is_dead(&silent.incarnation);
        check!(
            !is_dead || started_at.elapsed() > Duration::from_millis(1_900),
            "dead after {:?}",
            started_at.elapsed()
        );
        Ok(is_dead.then_some(()))
    })
    .await?;
    same!(stores.nodes.heartbeat(&silent, false).await?, HeartbeatStatus::Dead, "a heartbeat after the silence");
    same!(
        stores.nodes.heartbeat(&silent, true).await?,
        HeartbeatStatus::Dead,
        "a late first heartbeat after the silence"
    );
    same!(stores.nodes.heartbeat(&living, false).await?, HeartbeatStatus::Live, "a heartbeat in time");
    // A gap between calls on a busy machine counts as downtime of the store.
    let nodes = eventually("the store is available", async || {
        same!(stores.nodes.heartbeat(&living, false).await?, HeartbeatStatus::Live, "a heartbeat in time");
        Ok(Some(stores.nodes.nodes().await?).filter(|nodes| nodes.available_for > nodes.dead_after))
    })
    .await?;
    check!(nodes.is_dead(&unknown.incarnation), "an unlisted node is live in an old store");
    same!(
        stores.nodes.heartbeat(&unknown, false).await?,
        HeartbeatStatus::Dead,
        "a heartbeat of an unlisted node in an old store"
    );
    same!(stores.nodes.heartbeat(&unknown, true).await?, HeartbeatStatus::Live, "a node that joins");
    let member = found(stores, &living).await?.ok_or_else(|| Failure("a live node is not listed".to_owned()))?;
    check!(member.node == living && !member.is_dead, "the last heartbeat was not applied: {member:?}");

    eventually("dead nodes are removed", async || {
        same!(stores.nodes.heartbeat(&living, false).await?, HeartbeatStatus::Live, "a heartbeat in time");
        Ok(found(stores, &silent).await?.is_none().then_some(()))
    })
    .await?;
    downtime_of_the_store_does_not_count_as_silence_of_a_node(stores, &living).await
}

/// Time during which the store is unavailable does not count as silence. The gap here is one between calls, which the
/// store cannot distinguish from its own downtime.
async fn downtime_of_the_store_does_not_count_as_silence_of_a_node(
    stores: &SharedStores,
    living: &NodeRecord,
) -> Outcome {
    same!(stores.nodes.heartbeat(living, false).await?, HeartbeatStatus::Live, "a heartbeat before the gap");
    // The passage of time itself is under test.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let nodes = stores.nodes.nodes().await?;
    check!(!nodes.is_dead(&living.incarnation), "a node is dead because the store was unavailable");
    check!(nodes.available_for < nodes.dead_after, "a gap counts as availability: {:?}", nodes.available_for);
    same!(stores.nodes.heartbeat(living, false).await?, HeartbeatStatus::Live, "a heartbeat after the gap");
    Ok(())
}
