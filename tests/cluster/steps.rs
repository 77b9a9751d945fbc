//! A node dies at each step in the tables of the protocol, before and after its write.

use std::time::Duration;

use folio_proto::v1;
use folio_proto::v1::approve_response::Outcome;
use folio_tests::faults::person::{Person, Refusals};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::stage::{Stage, on_stage};

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
const PEOPLE: usize = 4;
/// Timeout until a node reaches a step.
const REACHED_WITHIN: Duration = Duration::from_secs(20);

#[test]
fn a_node_may_die_before_and_after_each_step_of_a_turn() {
    on_stage(SCRIPT, async |stage| {
        let seed = folio_testkit::seed();
        let (stop, stopped) = watch::channel(false);
        let mut people = JoinSet::new();
        let gateways: Vec<_> = stage.cluster.gateways.iter().map(|gateway| gateway.door.address()).collect();
        for number in 0..PEOPLE {
            let random = StdRng::seed_from_u64(seed.wrapping_add(number as u64));
            let (tenant, document, log) = (stage.cluster.tenants[0].clone(), stage.document.clone(), stage.log.clone());
            let name = format!("s{number}");
            let person = Person::new(name, tenant, document, gateways.clone(), log, random, Refusals::default());
            people.spawn(person.work(stopped.clone()));
        }
        let steps = STEPS.iter().flat_map(|step| [format!("{step}:before"), format!("{step}:after")]);
        let mut steps: Vec<String> = steps.collect();
        let (one, two) = (steps.split_off(steps.len() / 2), steps);
        let [first, second, _] = &mut stage.cluster.nodes[..] else { panic!("three nodes") };
        let (missed_one, missed_two) = tokio::join!(die_at(first, one), die_at(second, two));
        stop.send_replace(true);
        let never = people.join_all().await.concat();
        assert!(never.is_empty(), "{never:?}");
        let missed = [missed_one, missed_two].concat();
        assert!(missed.is_empty(), "no node reached {missed:?}");
        stage.assert_clean().await;
    });
}

/// Makes a node die at each of these steps. Returns the steps that it did not reach.
async fn die_at(node: &mut folio_tests::harness::cluster::Member, steps: Vec<String>) -> Vec<String> {
    let mut missed = Vec::new();
    for step in steps {
        node.kill();
        // The node may reach the step before it listens.
        let _ = node.try_start(&[("FOLIO_FAILPOINT", &step)]).await;
        let end = tokio::time::Instant::now() + REACHED_WITHIN;
        while node.is_up() {
            if tokio::time::Instant::now() > end {
                missed.push(step);
                break;
            }
            // Clients continue their work.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    node.kill();
    node.start(&[]).await;
    missed
}

#[test]
fn a_node_may_die_while_it_recovers_the_turns_of_another() {
    for point in ["resume:before", "resume:after", "recover:before", "recover:after"] {
        on_stage(SCRIPT, async |stage| {
            let own = [("FOLIO_FAILPOINT", "intent:after")];
            let next = [("FOLIO_FAILPOINT", point)];
            let waiting = stage.paused_at(0, "write", &own, &[]).await;
            // Node 1 takes the turn over and dies at the failpoint. Then node 2 takes it over without a failpoint.
            for number in [1, 2] {
                stage.node(number).kill();
            }
            let _ = stage.node(1).try_start(&next).await;
            stage.approve_until_dead(&Stage::all_of(&waiting), 0).await;
            stage.node(1).dead().await;
            stage.node(2).start(&[]).await;
            stage.until_not_busy(&waiting.turn_id).await;
            stage.resume(&waiting.turn_id).await;
            assert_eq!(stage.client(1).await.tag_names().await, ["write"]);
            stage.assert_clean().await;
        });
    }
}

#[test]
fn a_node_may_die_while_it_closes_cancelled_calls() {
    for point in ["closing:before", "closing:after", "close:before", "close:after"] {
        on_stage(SCRIPT, async |stage| {
            let cancelled = cancel_amid(stage, &[], &format!("write:before=hang,{point}")).await;
            if cancelled.status() == v1::TurnStatus::Cancelled {
                assert!(stage.client(1).await.tag_names().await.is_empty());
            } else {
                // The cancel failed before it was recorded, so the approved call is completed.
                assert_eq!((point, cancelled.status()), ("closing:before", v1::TurnStatus::Failed));
            }
            stage.assert_clean().await;
        });
    }
}

/// Cancels a turn whose write hangs at node 0, which may die. Returns the turn.
pub(crate) async fn cancel_amid(stage: &mut Stage, variables: &[(&str, &str)], points: &str) -> v1::Turn {
    let own = [variables, &[("FOLIO_FAILPOINT", points)]].concat();
    let waiting = stage.paused_at(0, "write", &own, variables).await;
    let turn = waiting.turn_id.clone();
    let request = Stage::all_of(&waiting);
    {
        let approving = stage.approve(0, &request);
        tokio::pin!(approving);
        let member = &stage.cluster.nodes[0];
        let hangs = || std::future::ready(member.errors().contains("hanging at a failpoint").then_some(()));
        let hangs = folio_testkit::wait_for("a write that hangs", folio_tests::harness::LIMIT, hangs);
        tokio::select! {
            answer = &mut approving => panic!("{answer:?}"),
            () = hangs => {}
        }
    }
    let client = stage.client(0).await;
    let _ = client.cancel(&turn).await;
    stage.until_not_busy(&turn).await;
    let client = stage.client(1).await;
    // Published state is visible a little later than the stored state.
    folio_testkit::wait_for("the turn's end", folio_tests::harness::LIMIT, || async {
        let found = client.try_turn(&turn).await.ok()?;
        (found.status() != v1::TurnStatus::Running).then_some(found)
    })
    .await
}

#[test]
fn a_response_that_was_lost_with_its_node_is_repeated() {
    on_stage(SCRIPT, async |stage| {
        let waiting = stage.paused_at(0, "write", &[("FOLIO_FAILPOINT", "end:after")], &[]).await;
        let request = Stage::all_of(&waiting);
        stage.approve_until_dead(&request, 0).await;
        let answer = stage.approve_until_taken(1, &request).await;
        assert!(matches!(answer.outcome, Some(Outcome::Completed(_))), "{answer:?}");
        assert_eq!(stage.approve(0, &request).await.unwrap(), answer);
        stage.assert_clean().await;
    });
}
