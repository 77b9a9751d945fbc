//! Redis never holds the only copy of any data: without Redis, or with an empty one, the cluster is slower and not
//! wrong.

use std::time::{Duration, Instant};

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_tests::harness::LIMIT;
use folio_types::{Code, Reason};

use crate::test_cluster::{TestCluster, assert_completed, on_cluster, thread_of};

const SCRIPT: &str = "
rules:
  - when: {user: {prefix: write}, round: 3}
    fault: {hold: {gate: end}}
    answer: {text: Written.}
  - when: {user: {prefix: write}, round: 2}
    answer: {calls: [{name: create_tag, arguments: {name: '{{user}} b'}}]}
  - when: {user: {prefix: write}, round: 1}
    fault: {hold: {gate: begin}}
    answer: {calls: [{name: create_tag, arguments: {name: '{{user}} a'}}]}
  - when: {user: {prefix: pause}, round: 2}
    answer: {text: Paused.}
  - when: {user: {prefix: pause}}
    answer: {calls: [{name: create_tag, arguments: {name: '{{user}}'}}]}
  - when: {user: {prefix: hello}}
    answer: {text: Hello.}
";

fn flush(test: &TestCluster) {
    test.redis.command("FLUSHALL").expect("Redis answers");
}

/// Minimum time without Redis: longer than `dead_after`, so that a takeover without Redis would be detected.
const REDIS_OUTAGE: Duration = Duration::from_secs(20);
/// Minimum number of turns that complete before Redis is started again.
const TURNS_WITHOUT_REDIS: usize = 20;
/// Maximum number of pairs of threads that are created until another node owns two threads of each kind.
const THREAD_PAIRS_MAX: usize = 40;

#[test]
fn redis_emptied_in_each_phase_of_a_turn_changes_nothing() {
    on_cluster(SCRIPT, async |test| {
        // First flush: during the model call, with a watcher at another gateway.
        let stream = test.chat(0, "write").await;
        let turn = stream.turn();
        test.cluster.sim.wait_for_waiting_request().await;
        let watcher = test.client(1).await.watch(&turn, 0).await.unwrap();
        flush(test);
        test.cluster.sim.open_gate("begin").await;
        let waiting = stream.pause().await;
        drop(watcher.end().await);
        // Second flush: while the turn waits for approval.
        flush(test);
        let client = test.client(1).await;
        // After a test that stopped Redis, the gateway may not be connected yet.
        let list = || async {
            let request = v1::ListPendingApprovalsRequest::default();
            client.conversations.clone().list_pending_approvals(request).await.ok()
        };
        let listed = folio_testkit::wait_for("the pending approvals", LIMIT, list).await;
        assert!(listed.into_inner().incomplete, "turns may be missing after a loss");
        let answer = test.approve_until_accepted(1, &TestCluster::approvals_of(&waiting)).await;
        let Some(Outcome::AwaitingApproval(waiting)) = answer.outcome else { panic!("{answer:?}") };
        // Third flush: after the decided calls ran, during the next model call.
        let request = TestCluster::approvals_of(&waiting);
        let answer = {
            let approving = test.approve(0, &request);
            tokio::pin!(approving);
            tokio::select! {
                answer = &mut approving => panic!("{answer:?}"),
                () = test.cluster.sim.wait_for_waiting_request() => {}
            }
            flush(test);
            test.cluster.sim.open_gate("end").await;
            approving.await.unwrap()
        };
        assert_completed(&answer);
        // Fourth flush: after the end of the turn, before the next turn.
        flush(test);
        assert_eq!(test.approve_until_accepted(1, &request).await, answer, "the recorded answer");
        let client = test.client(1).await;
        assert_eq!(client.turn(&turn).await.status(), v1::TurnStatus::Completed);
        let thread = thread_of(&turn);
        assert_eq!(client.say(thread, "hello").await.completed().await.text, "Hello.");
        test.assert_clean().await;
    });
}

#[test]
fn emptying_redis_does_not_revive_a_dead_owner() {
    on_cluster(SCRIPT, async |test| {
        let waiting = test.chat(0, "pause").await.pause().await;
        let owner = test.owner(&waiting.turn_id).await;
        test.node(owner).kill();
        flush(test);
        // The owner counts as dead once Redis has had its data for longer than `dead_after` since the flush.
        let answer = test.approve_until_accepted(1, &TestCluster::approvals_of(&waiting)).await;
        assert_completed(&answer);
        test.assert_clean().await;
    });
}

#[test]
fn while_redis_is_unavailable_turns_of_live_owners_complete_and_takeovers_wait() {
    on_cluster(SCRIPT, async |test| {
        let client = test.client(0).await;
        let orphan = test.chat(0, "pause orphan").await.pause().await;
        let owner = test.owner(&orphan.turn_id).await;
        let mut owned = (Vec::new(), Vec::new());
        for number in 0..THREAD_PAIRS_MAX {
            let stream = test.chat(0, "hello").await;
            let thread = stream.thread();
            stream.completed().await;
            if test.cluster.owner(&thread).await != owner {
                owned.0.push(thread);
            }
            let waiting = test.chat(0, &format!("pause {number}")).await.pause().await;
            if test.owner(&waiting.turn_id).await != owner {
                owned.1.push(waiting);
            }
            if owned.0.len() >= 2 && owned.1.len() >= 2 {
                break;
            }
        }
        assert!(!owned.0.is_empty() && !owned.1.is_empty(), "another node owns a thread and a paused turn");
        test.redis.kill();
        test.node(owner).kill();
        let (mut turns, mut refused) = (0, 0);
        for waiting in &owned.1 {
            let answer =
                test.approve(1, &TestCluster::approvals_of(waiting)).await.expect("an approval at a live owner");
            assert_completed(&answer);
            turns += 1;
        }
        let stopped_at = Instant::now();
        while stopped_at.elapsed() < REDIS_OUTAGE || turns < TURNS_WITHOUT_REDIS {
            for thread in &owned.0 {
                assert_eq!(client.say(thread, "hello").await.completed().await.text, "Hello.");
                turns += 1;
            }
            if refused < 3 {
                let status = test.approve(0, &TestCluster::approvals_of(&orphan)).await.expect_err("a takeover waits");
                let error = folio_proto::status::to_error(&status);
                assert_eq!(error.code, Code::Unavailable, "{error:?}");
                assert!(error.retry_after.is_some(), "{error:?}");
                refused += 1;
            }
            assert_eq!(client.turn(&orphan.turn_id).await.status(), v1::TurnStatus::AwaitingApproval, "reads work");
        }
        println!("{turns} turns completed without Redis in {:?}", stopped_at.elapsed());
        test.redis.run().expect("Redis starts again");
        let answer = test.approve_until_accepted(1, &TestCluster::approvals_of(&orphan)).await;
        assert_completed(&answer);
        test.assert_clean().await;
    });
}

#[test]
fn an_open_turn_without_an_owner_ends_after_redis_lost_its_data() {
    on_cluster(SCRIPT, async |test| {
        let stream = test.chat(0, "write").await;
        let turn = stream.turn();
        test.cluster.sim.wait_for_waiting_request().await;
        let owner = test.owner(&turn).await;
        test.node(owner).kill();
        test.redis.run_emptied().expect("Redis starts without data");
        drop(stream);
        test.wait_until_idle(&turn).await;
        let found = test.turn(&turn).await;
        assert_eq!(found.status(), v1::TurnStatus::Failed);
        assert_eq!(found.error.unwrap().reason, Reason::NodeLost.as_str());
        test.assert_clean().await;
    });
}
