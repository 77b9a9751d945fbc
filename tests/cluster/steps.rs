//! A node dies at each step in the tables of the protocol, before and after its write.

use std::time::Duration;

use folio_proto::v1;
use folio_tests::faults::refusals::Refusals;
use folio_tests::faults::simulated_user::SimulatedUser;
use folio_tests::harness::LIMIT;
use folio_tests::harness::cluster::Member;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::test_cluster::{TestCluster, assert_completed, on_cluster};

const SCRIPT: &str = "
rules:
  - when: {system: {contains: You extract data}}
    answer: {text: '{\"total\": 957}'}
  - when: {user: {contains: work}}
    rounds:
      - calls: [{name: list_tags}]
      - calls: [{name: create_tag, arguments: {name: '{{user}} a'}}, {name: create_tag, arguments: {name: '{{user}} b'}}]
      - calls: [{name: create_tag, arguments: {name: '{{user}} c'}}]
      - text: Worked.
  - when: {user: {prefix: write}, round: 2}
    answer: {text: Written.}
  - when: {user: {prefix: write}}
    answer: {calls: [{name: create_tag, arguments: {name: '{{user}}'}}]}
";

/// Steps that every turn reaches.
const STEPS: [&str; 11] =
    ["accept", "model", "read", "round", "pause", "decide", "plan", "intent", "write", "outcome", "end"];

/// Concurrent clients while nodes die.
const USERS: usize = 4;
/// Timeout until a node reaches a step.
const REACHED_WITHIN: Duration = LIMIT;

#[test]
fn a_node_may_die_before_and_after_each_step_of_a_turn() {
    on_cluster(SCRIPT, async |test| {
        let seed = folio_testkit::seed();
        let (stop, stopped) = watch::channel(false);
        let mut users = JoinSet::new();
        let gateways: Vec<_> = test.cluster.gateways.iter().map(|gateway| gateway.listener_proxy.address()).collect();
        for number in 0..USERS {
            let random = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
            let (tenant, document, log) = (test.cluster.tenants[0].clone(), test.document.clone(), test.log.clone());
            let name = format!("s{number}");
            let user = SimulatedUser::new(name, tenant, document, gateways.clone(), log, random, Refusals::default());
            users.spawn(user.work(stopped.clone()));
        }
        let steps = STEPS.iter().flat_map(|step| [format!("{step}:before"), format!("{step}:after")]);
        let mut steps: Vec<String> = steps.collect();
        let (one, two) = (steps.split_off(steps.len() / 2), steps);
        let [first, second, _] = &mut test.cluster.nodes[..] else { panic!("three nodes") };
        let (missed_one, missed_two) = tokio::join!(die_at(first, one), die_at(second, two));
        stop.send_replace(true);
        let never = users.join_all().await.concat();
        assert!(never.is_empty(), "{never:?}");
        let missed = [missed_one, missed_two].concat();
        assert!(missed.is_empty(), "no node reached {missed:?}");
        test.assert_clean().await;
    });
}

/// Makes a node die at each of these steps, and starts it again. Returns the steps that it did not reach.
async fn die_at(node: &mut Member, steps: Vec<String>) -> Vec<String> {
    let missed = die_at_each(node, &steps).await;
    node.kill();
    node.start(&[]).await;
    missed
}

/// Makes a node die at each of these steps, one after another. Returns the steps that it did not reach.
pub(crate) async fn die_at_each(node: &mut Member, steps: &[impl AsRef<str>]) -> Vec<String> {
    let mut missed = Vec::new();
    for step in steps {
        node.kill();
        // The node may reach the step before it listens.
        let _ = node.try_start(&[("FOLIO_FAILPOINT", step.as_ref())]).await;
        let end = tokio::time::Instant::now() + REACHED_WITHIN;
        while node.is_up() {
            if tokio::time::Instant::now() > end {
                missed.push(step.as_ref().to_owned());
                break;
            }
            // Clients and jobs continue their work.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    missed
}

#[test]
fn a_node_may_die_while_it_recovers_the_turns_of_another() {
    for point in ["resume:before", "resume:after", "recover:before", "recover:after"] {
        on_cluster(SCRIPT, async |test| {
            let own = [("FOLIO_FAILPOINT", "intent:after")];
            let next = [("FOLIO_FAILPOINT", point)];
            let waiting = test.paused_at(0, "write", &own, &[]).await;
            // Node 1 takes the turn over and dies at the failpoint. Then node 2 takes it over without a failpoint.
            for number in [1, 2] {
                test.node(number).kill();
            }
            let _ = test.node(1).try_start(&next).await;
            test.approve_until_dead(&TestCluster::approvals_of(&waiting), 0).await;
            test.node(1).wait_until_dead().await;
            test.node(2).start(&[]).await;
            test.wait_until_idle(&waiting.turn_id).await;
            test.resume(&waiting.turn_id).await;
            assert_eq!(test.client(1).await.tag_names().await, ["write"]);
            test.assert_clean().await;
        });
    }
}

#[test]
fn a_node_may_die_while_it_closes_cancelled_calls() {
    for point in ["closing:before", "closing:after", "close:before", "close:after"] {
        on_cluster(SCRIPT, async |test| {
            let cancelled = cancel_during_write(test, &[], &format!("write:before=hang,{point}")).await;
            if cancelled.status() == v1::TurnStatus::Cancelled {
                assert!(test.client(1).await.tag_names().await.is_empty());
            } else {
                // The cancel failed before it was recorded, so the approved call is completed.
                assert_eq!((point, cancelled.status()), ("closing:before", v1::TurnStatus::Failed));
            }
            test.assert_clean().await;
        });
    }
}

/// Cancels a turn whose write hangs at node 0, which may die. Returns the turn.
pub(crate) async fn cancel_during_write(test: &mut TestCluster, variables: &[(&str, &str)], points: &str) -> v1::Turn {
    let own = [variables, &[("FOLIO_FAILPOINT", points)]].concat();
    let waiting = test.paused_at(0, "write", &own, variables).await;
    let turn = waiting.turn_id.clone();
    let request = TestCluster::approvals_of(&waiting);
    let member = &test.cluster.nodes[0];
    let hangs = || std::future::ready(member.errors().contains("hanging at a failpoint").then_some(()));
    test.approve_until(&request, folio_testkit::wait_for("a write that hangs", LIMIT, hangs)).await;
    let client = test.client(0).await;
    let _ = client.cancel(&turn).await;
    test.wait_until_idle(&turn).await;
    let client = test.client(1).await;
    // Published state is visible a little later than the stored state.
    folio_testkit::wait_for("the turn's end", LIMIT, || async {
        let found = client.try_turn(&turn).await.ok()?;
        (found.status() != v1::TurnStatus::Running).then_some(found)
    })
    .await
}

#[test]
fn a_response_that_was_lost_with_its_node_is_repeated() {
    on_cluster(SCRIPT, async |test| {
        let waiting = test.paused_at(0, "write", &[("FOLIO_FAILPOINT", "end:after")], &[]).await;
        let request = TestCluster::approvals_of(&waiting);
        test.approve_until_dead(&request, 0).await;
        let answer = test.approve_until_accepted(1, &request).await;
        assert_completed(&answer);
        assert_eq!(test.approve_until_accepted(0, &request).await, answer);
        test.assert_clean().await;
    });
}
