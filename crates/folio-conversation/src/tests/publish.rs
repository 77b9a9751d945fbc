//! Publication of turns to other nodes. A turn never waits for its publication.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use folio_storage::{EventsAppended, EventsRead, SharedTurn, TurnEventStore};
use folio_storage_conformance::layer::EventLayer;
use folio_types::Incarnation;

use super::several::MultiNode;
use super::*;
use crate::SharedTurnStores;

/// An event store that refuses appends while the flag is true.
struct UnavailableEventStore(Arc<AtomicBool>);

#[async_trait]
impl EventLayer for UnavailableEventStore {
    async fn append(
        &self,
        below: &dyn TurnEventStore,
        org: &OrgId,
        turn: &TurnId,
        owner: &Incarnation,
        epoch: u64,
        events: &[Event],
    ) -> Result<EventsAppended> {
        if self.0.load(Ordering::SeqCst) {
            return Err(Error::unavailable(Reason::StoreUnavailable, "unavailable"));
        }
        below.append(org, turn, owner, epoch, events).await
    }
}

fn shared(several: &MultiNode) -> (SharedTurnStores, Arc<AtomicBool>) {
    let shared = several.shared.clone();
    let is_unavailable = Arc::new(AtomicBool::new(false));
    let events = Layered::over(UnavailableEventStore(is_unavailable.clone()), &shared.events);
    (SharedTurnStores { turns: shared.turns, events: Some(events) }, is_unavailable)
}

async fn published(
    shared_turns: &SharedTurnStores,
    several: &MultiNode,
    turn: &TurnId,
    wanted: impl Fn(&SharedTurn) -> bool,
) -> SharedTurn {
    let org = &several.principal.org;
    wait_for("a state", SOON, || async { shared_turns.turns.get(org, turn).await.unwrap().filter(&wanted) }).await
}

/// Returns the published events of a turn once one of them satisfies `last`.
async fn received(
    shared_turns: &SharedTurnStores,
    several: &MultiNode,
    turn: &TurnId,
    last: impl Fn(&EventKind) -> bool,
) -> Vec<Event> {
    wait_for("events", SOON, || async {
        let read = shared_turns.events.as_ref().unwrap().read(&several.principal.org, turn, 1, 1_000).await.unwrap();
        let EventsRead::Events(events) = read else { return None };
        events.iter().any(|event| last(&event.kind)).then_some(events)
    })
    .await
}

#[tokio::test]
async fn other_nodes_receive_a_pause_and_all_later_states() {
    let mut several = MultiNode::start(0).await;
    let (shared_turns, _) = shared(&several);
    several.join_with(Some(shared_turns.clone())).await;
    let (turn, pending) = several.pause_at(0, call("create_tag", json!({"name": "published"}))).await;
    let waits = published(&shared_turns, &several, &turn, SharedTurn::is_waiting).await;
    assert_eq!((&waits.pending, &waits.node), (&pending, &several.nodes[0].incarnation));
    assert!(waits.expires_at.is_some());
    let listed = shared_turns.turns.waiting(&several.principal.org, None, None, 10).await.unwrap();
    assert_eq!(listed, [waits]);
    let first =
        received(&shared_turns, &several, &turn, |kind| matches!(kind, EventKind::AwaitingApproval { .. })).await;
    assert_eq!(first[0].number, 1);
    several.models.then([say("Made.")]);
    reached(several.approve(0, approve_all(&turn, &pending)).await.unwrap());
    published(&shared_turns, &several, &turn, |state| !state.is_waiting()).await;
    assert!(shared_turns.turns.waiting(&several.principal.org, None, None, 10).await.unwrap().is_empty());
    let all = received(&shared_turns, &several, &turn, |kind| matches!(kind, EventKind::Completed { .. })).await;
    for (one, next) in all.iter().zip(all.iter().skip(1)) {
        assert_eq!(next.number, one.number + 1, "invariant 9: no gap");
    }
    several.finish().await;
}

#[tokio::test]
async fn a_new_owner_publishes_higher_numbers_with_a_snapshot_first() {
    let mut several = MultiNode::start(0).await;
    let (shared_turns, _) = shared(&several);
    several.join_with(Some(shared_turns.clone())).await;
    several.join_with(Some(shared_turns.clone())).await;
    several.models.then([gated(say("Never."))]);
    let mut stream = several.begin(0, several.chat("x")).await;
    let turn = stream.next().await.unwrap().unwrap().turn;
    received(&shared_turns, &several, &turn, |kind| matches!(kind, EventKind::RoundStarted { .. })).await;
    several.kill(0).await;
    let events = received(&shared_turns, &several, &turn, |kind| matches!(kind, EventKind::Failed { .. })).await;
    assert!(matches!(events[0].kind, EventKind::Snapshot(_)), "{events:?}");
    assert!(events[0].number > 1 << 32, "{events:?}");
    let (org, listed) = (&several.principal.org, &shared_turns.turns);
    assert_eq!(listed.get(org, &turn).await.unwrap(), None, "a turn that never waits is not published");
    several.finish().await;
}

#[tokio::test]
async fn an_unavailable_event_store_blocks_nothing_and_gets_a_snapshot_later() {
    let mut several = MultiNode::start(0).await;
    let (shared_turns, is_unavailable) = shared(&several);
    several.join_with(Some(shared_turns.clone())).await;
    let tasks = several.node(0).snapshot().tasks;
    is_unavailable.store(true, Ordering::SeqCst);
    let (turn, pending) = several.pause_at(0, call("create_tag", json!({"name": "a"}))).await;
    wait_for("the events to be skipped", SOON, || async { (several.node(0).snapshot().tasks <= tasks).then_some(()) })
        .await;
    is_unavailable.store(false, Ordering::SeqCst);
    several.models.then([say("Made.")]);
    reached(several.approve(0, approve_all(&turn, &pending)).await.unwrap());
    let events = received(&shared_turns, &several, &turn, |kind| matches!(kind, EventKind::Completed { .. })).await;
    assert!(matches!(events[0].kind, EventKind::Snapshot(_)), "a snapshot replaces the unpublished events: {events:?}");
    several.finish().await;
}

#[tokio::test]
async fn a_pending_turn_is_published_again_after_the_store_lost_it() {
    let mut several = MultiNode::start(0).await;
    several.join().await;
    // The first node does not publish the pause, as if the store had lost it.
    let (turn, pending) = several.pause_at(0, call("create_tag", json!({"name": "published"}))).await;
    several.kill(0).await;
    let (shared_turns, _) = shared(&several);
    several.join_with(Some(shared_turns.clone())).await;
    let waits = published(&shared_turns, &several, &turn, SharedTurn::is_waiting).await;
    assert_eq!(waits.pending, pending);
    assert!(waits.is_waiting_for(&several.principal) && waits.paused_at < waits.expires_at);
    let listed = shared_turns.turns.waiting(&several.principal.org, None, None, 10).await.unwrap();
    assert_eq!(listed, [waits]);
    several.finish().await;
}
