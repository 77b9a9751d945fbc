//! Redis never holds the only copy of any data: without Redis, or with an empty one, the cluster is slower and not
//! wrong.

use std::time::{Duration, Instant};

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_types::{Code, Reason};

use crate::stage::{Stage, on_stage};

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

fn flush(stage: &Stage) {
    stage.redis.ask("FLUSHALL").expect("Redis answers");
}

/// Minimum time without Redis: longer than the heartbeat time, after which a dead node would be replaced.
const AWAY: Duration = Duration::from_secs(20);
/// Minimum number of turns that complete before Redis is started again.
const TURNS_AWAY: usize = 20;
/// Maximum number of threads that are created until another node owns some of them.
const MADE: usize = 40;

#[test]
fn redis_emptied_in_each_phase_of_a_turn_changes_nothing() {
    on_stage(SCRIPT, async |stage| {
        // First flush: during the model call, with a watcher at another gateway.
        let stream = stage.chat(0, "write").await;
        let turn = stream.turn();
        stage.cluster.sim.until_held().await;
        let watcher = stage.client(1).await.watch(&turn, 0).await.unwrap();
        flush(stage);
        stage.cluster.sim.open("begin").await;
        let waiting = stream.pause().await;
        drop(watcher.end().await);
        // Second flush: while the turn waits for approval.
        flush(stage);
        let answer = stage.approve_until_taken(1, &Stage::all_of(&waiting)).await;
        let Some(Outcome::AwaitingApproval(waiting)) = answer.outcome else { panic!("{answer:?}") };
        // Third flush: after the decided calls ran, during the next model call.
        let request = Stage::all_of(&waiting);
        let answer = {
            let approving = stage.approve(0, &request);
            tokio::pin!(approving);
            tokio::select! {
                answer = &mut approving => panic!("{answer:?}"),
                () = stage.cluster.sim.until_held() => {}
            }
            flush(stage);
            stage.cluster.sim.open("end").await;
            approving.await.unwrap()
        };
        assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
        // Fourth flush: after the end of the turn, before the next turn.
        flush(stage);
        assert_eq!(stage.approve_until_taken(1, &request).await, answer, "the recorded answer");
        let client = stage.client(1).await;
        assert_eq!(client.turn(&turn).await.status(), v1::TurnStatus::Completed);
        let thread = turn.split('.').next().unwrap();
        assert_eq!(client.say(thread, "hello").await.completed().await.text, "Hello.");
        stage.assert_clean().await;
    });
}

#[test]
fn emptying_redis_does_not_revive_a_dead_owner() {
    on_stage(SCRIPT, async |stage| {
        let waiting = stage.chat(0, "pause").await.pause().await;
        let owner = stage.cluster.owner(waiting.turn_id.split('.').next().unwrap()).await;
        stage.node(owner).kill();
        flush(stage);
        // Redis declares the owner dead once the data after the flush is old enough.
        let answer = stage.approve_until_taken(1, &Stage::all_of(&waiting)).await;
        assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
        stage.assert_clean().await;
    });
}

#[test]
fn while_redis_is_unavailable_turns_of_live_owners_complete_and_takeovers_wait() {
    on_stage(SCRIPT, async |stage| {
        let client = stage.client(0).await;
        let orphan = stage.chat(0, "pause orphan").await.pause().await;
        let owner = stage.cluster.owner(orphan.turn_id.split('.').next().unwrap()).await;
        let mut owned = (Vec::new(), Vec::new());
        for number in 0..MADE {
            let stream = stage.chat(0, "hello").await;
            let thread = stream.thread();
            stream.completed().await;
            if stage.cluster.owner(&thread).await != owner {
                owned.0.push(thread);
            }
            let waiting = stage.chat(0, &format!("pause {number}")).await.pause().await;
            if stage.cluster.owner(waiting.turn_id.split('.').next().unwrap()).await != owner {
                owned.1.push(waiting);
            }
            if owned.0.len() >= 2 && owned.1.len() >= 2 {
                break;
            }
        }
        assert!(!owned.0.is_empty() && !owned.1.is_empty(), "another node owns something");
        stage.redis.kill();
        stage.node(owner).kill();
        let (mut turns, mut refused) = (0, 0);
        for waiting in &owned.1 {
            let answer = stage.approve(1, &Stage::all_of(waiting)).await.expect("an approval on a living owner");
            assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
            turns += 1;
        }
        let stopped_at = Instant::now();
        while stopped_at.elapsed() < AWAY || turns < TURNS_AWAY {
            for thread in &owned.0 {
                assert_eq!(client.say(thread, "hello").await.completed().await.text, "Hello.");
                turns += 1;
            }
            if refused < 3 {
                let status = stage.approve(0, &Stage::all_of(&orphan)).await.expect_err("a takeover waits");
                let error = folio_proto::status::to_error(&status);
                assert_eq!(error.code, Code::Unavailable, "{error:?}");
                assert!(error.retry_after.is_some(), "{error:?}");
                refused += 1;
            }
            assert_eq!(client.turn(&orphan.turn_id).await.status(), v1::TurnStatus::AwaitingApproval, "reads work");
        }
        println!("{turns} turns completed without Redis in {:?}", stopped_at.elapsed());
        stage.redis.run().expect("Redis starts again");
        let answer = stage.approve_until_taken(1, &Stage::all_of(&orphan)).await;
        assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
        stage.assert_clean().await;
    });
}

#[test]
fn nothing_that_redis_lost_is_missed_when_an_open_turn_has_no_owner() {
    on_stage(SCRIPT, async |stage| {
        let stream = stage.chat(0, "write").await;
        let turn = stream.turn();
        stage.cluster.sim.until_held().await;
        let owner = stage.cluster.owner(turn.split('.').next().unwrap()).await;
        stage.node(owner).kill();
        stage.redis.run_emptied().expect("Redis starts with nothing");
        drop(stream);
        stage.until_not_busy(&turn).await;
        let found = stage.turn(&turn).await;
        assert_eq!(found.status(), v1::TurnStatus::Failed);
        assert_eq!(found.error.unwrap().reason, Reason::NodeLost.as_str());
        stage.assert_clean().await;
    });
}
