//! A terminated node releases its threads, and a rolling restart loses no turn.

use std::time::{Duration, Instant};

use folio_proto::v1;
use folio_tests::harness::LIMIT;
use folio_tests::harness::client::Client;
use tokio::sync::watch;

use crate::routing::WRITES;
use crate::test_cluster::{DEAD_AFTER, TestCluster, on_cluster, thread_of};

/// Maximum number of takeovers until one of them is shorter than the time after which a silent node counts as dead. A takeover that
/// waits for that time is never shorter; one on a busy machine may be longer.
const TAKEOVERS_MAX: usize = 5;

#[test]
fn the_threads_of_a_drained_node_are_taken_over_at_once() {
    on_cluster(WRITES, async |test| {
        let mut shortest = Duration::MAX;
        for number in 0..TAKEOVERS_MAX {
            let waiting = test.chat(0, &format!("write {number}")).await.pause().await;
            let owner = test.owner(&waiting.turn_id).await;
            let process = test.node(owner).take().unwrap();
            assert!(process.stop().await, "the node exits with status 0");
            let begun = Instant::now();
            test.approve_until_accepted(1, &TestCluster::approvals_of(&waiting)).await;
            shortest = shortest.min(begun.elapsed());
            if shortest < DEAD_AFTER {
                break;
            }
            test.cluster.restore().await;
        }
        assert!(shortest < DEAD_AFTER, "{shortest:?}");
        test.assert_clean().await;
    });
}

#[test]
fn a_rolling_restart_loses_no_turn() {
    on_cluster(WRITES, async |test| {
        let waiting = test.chat(0, "write before").await.pause().await;
        let (stop, stopped) = watch::channel(false);
        let mut chats = Vec::new();
        for user in 0..3 {
            let client = test.client(user % 2).await;
            chats.push(tokio::spawn(chat_on(client, test.document.clone(), user, stopped.clone())));
        }
        for number in 0..3 {
            let process = test.node(number).take().unwrap();
            assert!(process.stop().await, "node {number} exits with status 0");
            test.node(number).start(&[]).await;
        }
        stop.send_replace(true);
        let mut turns = 0;
        for chat in chats {
            turns += chat.await.unwrap();
        }
        assert!(turns >= 10, "only {turns} turns");
        test.approve_until_accepted(0, &TestCluster::approvals_of(&waiting)).await;
        test.assert_clean().await;
    });
}

/// Runs turns sequentially on old and new threads, all of which must complete. Returns their number.
async fn chat_on(client: Client, document: String, user: usize, stopped: watch::Receiver<bool>) -> usize {
    let (mut turns, mut thread) = (0, String::new());
    while !*stopped.borrow() {
        turns += 1;
        let mut request = v1::ChatRequest {
            thread_id: thread.clone(),
            text: "hello".to_owned(),
            request_id: format!("hello-{user}-{turns}"),
            ..Default::default()
        };
        if thread.is_empty() {
            request.document_ids = vec![document.clone()];
        }
        let completed = folio_testkit::wait_for("a completed turn", LIMIT, || async {
            let events = client.send(request.clone()).await.ok()?;
            let turn = events.turn();
            let events = events.drain().await.ok()?;
            let done = matches!(events.last()?.kind, Some(v1::event::Kind::Completed(_)));
            done.then_some(turn)
        })
        .await;
        thread = if turns % 3 == 0 { String::new() } else { thread_of(&completed).to_owned() };
    }
    turns
}
