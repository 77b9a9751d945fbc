//! Turns of a killed owner continue on another node within the heartbeat timeout plus one second.

use std::time::Instant;

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_tests::harness::client::{Events, outline};

use crate::stage::{BUSY, Stage, TAKEN_OVER, on_stage};

/// Requests wait until the gate `g` is opened.
const HELD: &str = "
rules:
  - when: {user: {prefix: slow}}
    fault: {hold: {gate: g, after_chunks: 4}}
    answer: {text: one two three four five six seven eight}
  - when: {user: {prefix: write}, round: 2}
    fault: {hold: {gate: g}}
    answer: {text: Written.}
  - when: {user: {prefix: write}}
    answer: {calls: [{name: create_tag, arguments: {name: '{{user}}'}}]}
";

async fn kill_owner(stage: &mut Stage, turn: &str) {
    let owner = stage.cluster.owner(turn.split('.').next().unwrap()).await;
    stage.node(owner).kill();
}

#[test]
fn a_paused_turn_is_approved_at_another_node_after_its_owner_was_killed() {
    on_stage(HELD, async |stage| {
        stage.cluster.sim.open("g").await;
        let waiting = stage.chat(0, "write").await.pause().await;
        kill_owner(stage, &waiting.turn_id).await;
        let begun = Instant::now();
        let answer = stage.approve_until_taken(1, &Stage::all_of(&waiting)).await;
        let took = begun.elapsed();
        assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
        assert!(took < TAKEN_OVER + BUSY, "{took:?}, with the model call");
        stage.assert_clean().await;
    });
}

#[test]
fn invariant_8_a_running_turn_whose_owner_was_killed_is_found_in_time_with_its_effects() {
    on_stage(HELD, async |stage| {
        let waiting = stage.chat(0, "write").await.pause().await;
        let (turn, request) = (waiting.turn_id.clone(), Stage::all_of(&waiting));
        {
            let approving = stage.approve(0, &request);
            tokio::pin!(approving);
            tokio::select! {
                answer = &mut approving => panic!("{answer:?}"),
                () = stage.cluster.sim.until_held() => {}
            }
        }
        kill_owner(stage, &turn).await;
        let took = stage.until_not_busy(&turn).await;
        assert!(took < TAKEN_OVER + BUSY, "busy for {took:?}");
        let client = stage.client(1).await;
        let found = stage.turn(&turn).await;
        assert_eq!((found.status(), found.retriable), (v1::TurnStatus::Failed, true));
        assert_eq!(client.tag_names().await, ["write"]);
        stage.cluster.sim.open("g").await;
        client.resume(&turn).await.unwrap().completed().await;
        assert_eq!(client.tag_names().await, ["write"], "no effect twice");
        stage.assert_clean().await;
    });
}

#[test]
fn invariant_9_a_watched_stream_continues_with_a_snapshot_at_the_next_owner() {
    on_stage(HELD, async |stage| {
        let stream = stage.chat(0, "slow").await;
        let turn = stream.turn();
        stage.cluster.sim.until_held().await;
        let watcher = stage.client(1).await.watch(&turn, 0).await.unwrap();
        kill_owner(stage, &turn).await;
        let begun = Instant::now();
        // Both streams must end in some way.
        let (one, two) = tokio::join!(stream.drain(), watcher.drain());
        drop((one, two));
        stage.until_not_busy(&turn).await;
        assert!(begun.elapsed() < TAKEN_OVER + BUSY, "{:?}", begun.elapsed());
        stage.cluster.sim.open("g").await;
        let client = stage.client(1).await;
        let resumed = client.resume(&turn).await.unwrap();
        let watched = followed(client.watch(&turn, 0).await.unwrap()).await;
        let resumed = followed(resumed).await;
        for events in [&resumed, &watched] {
            assert_eq!(outline(events).first(), Some(&"snapshot"), "{:?}", outline(events));
            assert_eq!(outline(events).last(), Some(&"completed"), "{:?}", outline(events));
        }
        assert_eq!(resumed.last(), watched.last());
        stage.assert_clean().await;
    });
}

async fn followed(events: Events) -> Vec<v1::Event> {
    events.end().await
}

#[test]
fn a_turn_that_runs_is_watched_at_another_gateway_and_node() {
    on_stage(HELD, async |stage| {
        let stream = stage.chat(0, "slow").await;
        let turn = stream.turn();
        stage.cluster.sim.until_held().await;
        let watcher = stage.client(1).await.watch(&turn, 0).await.unwrap();
        stage.cluster.sim.open("g").await;
        let (one, two) = tokio::join!(stream.end(), watcher.end());
        assert_eq!(one.last(), two.last());
        assert_eq!(outline(&two).last(), Some(&"completed"));
        stage.assert_clean().await;
    });
}
