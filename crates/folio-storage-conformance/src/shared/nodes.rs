//! [`folio_storage::NodeStore`].

use std::time::{Duration, Instant};

use folio_types::{Incarnation, Timestamp};

use super::super::{Failure, Outcome, check, same};
use super::eventually;
use folio_storage::{Beat, Member, NodeRecord, SharedStores};

/// A node of that name.
fn node(nonce: &str, name: &str) -> NodeRecord {
    NodeRecord {
        incarnation: Incarnation::derive(&[nonce, name]),
        address: format!("http://127.0.0.1:1/{name}"),
        draining: false,
        conversations: 3,
        turns_running: 1,
        capacity: 10,
        started_at: Timestamp::UNIX_EPOCH,
        version: "1".to_owned(),
    }
}

async fn found(stores: &SharedStores, node: &NodeRecord) -> Result<Option<Member>, Failure> {
    let nodes = stores.nodes.nodes().await?;
    Ok(nodes.members.into_iter().find(|member| member.node.incarnation == node.incarnation))
}

pub(super) async fn suite(stores: &SharedStores, nonce: &str) -> Outcome {
    let (mut living, silent, leaver, unknown) =
        (node(nonce, "living"), node(nonce, "silent"), node(nonce, "leaver"), node(nonce, "unknown"));
    let begun = Instant::now();
    for node in [&living, &silent, &leaver] {
        same!(stores.nodes.beat(node, true).await?, Beat::Kept, "the first heartbeat");
    }
    let nodes = stores.nodes.nodes().await?;
    for node in [&living, &silent, &leaver] {
        check!(!nodes.is_gone(&node.incarnation), "{node:?} is gone at once");
        check!(nodes.live().any(|member| member.node == *node), "{node:?} is not as it said");
    }
    let young = nodes.answering_for <= nodes.gone_after;
    check!(nodes.is_gone(&unknown.incarnation) != young, "in young data an unknown node is gone");

    stores.nodes.leave(&leaver).await?;
    check!(stores.nodes.nodes().await?.is_gone(&leaver.incarnation), "a node that left is there");
    for joins in [false, true] {
        same!(stores.nodes.beat(&leaver, joins).await?, Beat::Gone, "a late heartbeat of a node that left");
    }

    // Data that was lost: a node that was there says so again while it is young.
    let returned = node(nonce, "returned");
    let beat = stores.nodes.beat(&returned, false).await?;
    let nodes = stores.nodes.nodes().await?;
    let young = nodes.answering_for < nodes.gone_after;
    check!(!young || beat == Beat::Kept, "a heartbeat that is missing in young data is refused");

    (living.draining, living.conversations) = (true, 4);
    eventually("a silent node is gone", async || {
        same!(stores.nodes.beat(&living, false).await?, Beat::Kept, "a heartbeat in time");
        let gone = stores.nodes.nodes().await?.is_gone(&silent.incarnation);
        check!(!gone || begun.elapsed() > Duration::from_millis(1_900), "gone after {:?}", begun.elapsed());
        Ok(gone.then_some(()))
    })
    .await?;
    same!(stores.nodes.beat(&silent, false).await?, Beat::Gone, "a heartbeat after the silence");
    same!(stores.nodes.beat(&silent, true).await?, Beat::Gone, "a late first heartbeat after the silence");
    same!(stores.nodes.beat(&living, false).await?, Beat::Kept, "a heartbeat in time");
    let nodes = stores.nodes.nodes().await?;
    check!(nodes.answering_for > nodes.gone_after, "it answers for {:?}", nodes.answering_for);
    check!(nodes.is_gone(&unknown.incarnation), "in old data an unknown node is there");
    same!(stores.nodes.beat(&unknown, false).await?, Beat::Gone, "a heartbeat that is missing in old data");
    same!(stores.nodes.beat(&unknown, true).await?, Beat::Kept, "a node that joins");
    let member = found(stores, &living).await?.ok_or_else(|| Failure("a live node is not there".to_owned()))?;
    check!(member.node == living && !member.gone, "the last heartbeat is not what counts: {member:?}");

    eventually("nodes that went are forgotten", async || {
        same!(stores.nodes.beat(&living, false).await?, Beat::Kept, "a heartbeat in time");
        Ok(found(stores, &silent).await?.is_none().then_some(()))
    })
    .await?;
    a_gap_is_no_silence(stores, &living).await
}

/// When nobody could say anything, nobody was silent. The gap is one of the callers', which for the store is the same.
async fn a_gap_is_no_silence(stores: &SharedStores, living: &NodeRecord) -> Outcome {
    same!(stores.nodes.beat(living, false).await?, Beat::Kept, "a heartbeat before the gap");
    // Time itself is the matter.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    let nodes = stores.nodes.nodes().await?;
    check!(!nodes.is_gone(&living.incarnation), "a node is gone because the store was away");
    check!(nodes.answering_for < nodes.gone_after, "a gap counts as answering: {:?}", nodes.answering_for);
    same!(stores.nodes.beat(living, false).await?, Beat::Kept, "a heartbeat after the gap");
    Ok(())
}
