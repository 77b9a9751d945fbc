//! Turns of a killed owner continue on another node within the heartbeat timeout plus one second.

use std::time::{Duration, Instant};

use folio_proto::v1;
use folio_tests::harness::LIMIT;
use folio_tests::harness::client::outline;
use folio_types::Code;

use crate::test_cluster::{BUSY_MARGIN, TAKEN_OVER, TestCluster, assert_completed, on_cluster};

/// Requests wait until the gate `g` is opened.
const SCRIPT: &str = "
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

async fn kill_owner(test: &mut TestCluster, turn: &str) {
    let owner = test.owner(turn).await;
    test.node(owner).kill();
}

#[test]
fn a_paused_turn_is_approved_at_another_node_after_its_owner_was_killed() {
    on_cluster(SCRIPT, async |test| {
        test.cluster.sim.open_gate("g").await;
        let waiting = test.chat(0, "write").await.pause().await;
        kill_owner(test, &waiting.turn_id).await;
        let begun = Instant::now();
        let answer = test.approve_until_accepted(1, &TestCluster::approvals_of(&waiting)).await;
        let took = begun.elapsed();
        assert_completed(&answer);
        assert!(took < TAKEN_OVER + BUSY_MARGIN, "{took:?}, with the model call");
        test.assert_clean().await;
    });
}

#[test]
fn the_next_chat_on_a_thread_of_a_killed_node_is_answered_in_time() {
    on_cluster(SCRIPT, async |test| {
        test.cluster.sim.open_gate("g").await;
        let stream = test.chat(0, "slow").await;
        let (turn, thread) = (stream.turn(), stream.thread());
        stream.completed().await;
        kill_owner(test, &turn).await;
        let killed = Instant::now();
        let (client, mut longest) = (test.client(1).await, Duration::ZERO);
        let request = v1::ChatRequest {
            thread_id: thread,
            text: "slow again".to_owned(),
            request_id: "after-the-kill".to_owned(),
            ..Default::default()
        };
        // Repeats the chat after the delay that each refusal contains.
        let completed = loop {
            let begun = Instant::now();
            let answer = client.send(request.clone()).await;
            longest = longest.max(begun.elapsed());
            match answer {
                Ok(events) => break events.completed().await,
                Err(status) => {
                    let error = folio_proto::status::to_error(&status);
                    assert!(error.code == Code::Unavailable && killed.elapsed() < LIMIT, "{error:?}");
                    // The delay is the behaviour under test.
                    tokio::time::sleep(error.retry_after.expect("a retry delay")).await;
                }
            }
        };
        let took = killed.elapsed();
        println!("the next chat was answered {took:?} after the kill; the longest attempt took {longest:?}");
        assert_eq!(completed.text, "one two three four five six seven eight");
        assert!(took < TAKEN_OVER + BUSY_MARGIN, "{took:?}");
        test.assert_clean().await;
    });
}

#[test]
fn invariant_8_a_running_turn_whose_owner_was_killed_is_found_in_time_with_its_effects() {
    on_cluster(SCRIPT, async |test| {
        let waiting = test.chat(0, "write").await.pause().await;
        let (turn, request) = (waiting.turn_id.clone(), TestCluster::approvals_of(&waiting));
        test.approve_until(&request, test.cluster.sim.wait_for_waiting_request()).await;
        kill_owner(test, &turn).await;
        let took = test.wait_until_idle(&turn).await;
        assert!(took < TAKEN_OVER + BUSY_MARGIN, "busy for {took:?}");
        let client = test.client(1).await;
        let found = test.turn(&turn).await;
        assert_eq!((found.status(), found.retriable), (v1::TurnStatus::Failed, true));
        assert_eq!(client.tag_names().await, ["write"]);
        test.cluster.sim.open_gate("g").await;
        test.resume(&turn).await;
        assert_eq!(client.tag_names().await, ["write"], "the effect exists once");
        test.assert_clean().await;
    });
}

#[test]
fn invariant_9_a_watched_stream_continues_with_a_snapshot_at_the_next_owner() {
    on_cluster(SCRIPT, async |test| {
        let stream = test.chat(0, "slow").await;
        let turn = stream.turn();
        test.cluster.sim.wait_for_waiting_request().await;
        let watcher = test.client(1).await.watch(&turn, 0).await.unwrap();
        kill_owner(test, &turn).await;
        let begun = Instant::now();
        // Both streams must end; the kind of the end does not matter here.
        let (one, two) = tokio::join!(stream.drain(), watcher.drain());
        drop((one, two));
        test.wait_until_idle(&turn).await;
        assert!(begun.elapsed() < TAKEN_OVER + BUSY_MARGIN, "{:?}", begun.elapsed());
        test.cluster.sim.open_gate("g").await;
        let resumed = test.begin_to_resume(&turn).await;
        let watched = test.client(1).await.watch(&turn, 0).await.unwrap().end().await;
        let resumed = resumed.end().await;
        for events in [&resumed, &watched] {
            assert_eq!(outline(events).first(), Some(&"snapshot"), "{:?}", outline(events));
            assert_eq!(outline(events).last(), Some(&"completed"), "{:?}", outline(events));
        }
        assert_eq!(resumed.last(), watched.last());
        test.assert_clean().await;
    });
}

#[test]
fn a_turn_that_runs_is_watched_at_another_gateway_and_node() {
    on_cluster(SCRIPT, async |test| {
        let stream = test.chat(0, "slow").await;
        let turn = stream.turn();
        test.cluster.sim.wait_for_waiting_request().await;
        let watcher = test.client(1).await.watch(&turn, 0).await.unwrap();
        test.cluster.sim.open_gate("g").await;
        let (one, two) = tokio::join!(stream.end(), watcher.end());
        assert_eq!(one.last(), two.last());
        assert_eq!(outline(&two).last(), Some(&"completed"));
        test.assert_clean().await;
    });
}
