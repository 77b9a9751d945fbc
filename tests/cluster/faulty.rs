//! Scenarios that the checker finds clean, and the same scenarios with a fault in the stores of every node, which the
//! checker must find.
//!
//! The nodes of a faulty run are processes of `folio-faulty`; `FOLIO_FAULT` names the fault. Faults of the turn machine
//! are altered effects in the model check (`model_check/faults.rs` in folio-conversation).

use std::sync::Arc;
use std::time::Duration;

use folio_metering::Escrow;
use folio_proto::v1;
use folio_storage_conformance::faults::{Fault, decorate};
use folio_tests::faults::checker::Invariant;
use folio_tests::harness::LIMIT;
use folio_types::{Environment, System, Timestamp};

use crate::steps::cancel_during_write;
use crate::stopped_owner::{resume, write_end_late};
use crate::test_cluster::{TestCluster, on_cluster};

const SCRIPT: &str = "
rules:
  - when: {user: {prefix: write}, round: 2}
    answer: {text: Written.}
  - when: {user: {prefix: write}}
    answer: {calls: [{name: create_tag, arguments: {name: '{{user}}'}}]}
  - when: {user: {prefix: twice}}
    rounds:
      - calls: [{name: create_tag, arguments: {name: '{{user}} a'}}]
      - calls: [{name: create_tag, arguments: {name: '{{user}} b'}}]
      - text: Written twice.
  - when: {user: {prefix: slow}}
    fault: {hold: {gate: never}}
    answer: {text: Never.}
  - when: {user: {prefix: sch_}, round: 2}
    answer: {text: Changed.}
  - when: {user: {prefix: sch_}}
    answer:
      calls:
        - name: update_schema
          arguments:
            schema_id: '{{user}}'
            response_format:
              type: json_schema
              json_schema:
                name: bill
                strict: true
                schema: {type: object, properties: {called: {type: number}}, required: [called], additionalProperties: false}
  - when: {user: {prefix: hello}}
    answer: {text: Hello.}
";

type Variables<'a> = &'a [(&'a str, &'a str)];

/// Maximum number of attempts of a scenario to show its fault. On a busy machine a late write may arrive too late to
/// violate an invariant.
const ATTEMPTS_MAX: usize = 8;

/// Plays a scenario without a fault, and with each of these faults. The checker must find the violation of each fault.
fn detects(faults: &[(Fault, Invariant)], scenario: impl AsyncFn(&mut TestCluster, Variables<'_>)) {
    on_cluster(SCRIPT, async |test| {
        scenario(test, &[]).await;
        test.assert_clean().await;
    });
    for (fault, invariant) in faults {
        println!("{}", fault.name());
        let mut is_detected = false;
        for _ in 0..ATTEMPTS_MAX {
            on_cluster(SCRIPT, async |test| {
                scenario(test, &[("FOLIO_FAULT", fault.name())]).await;
                is_detected = test.is_violated(*invariant).await;
            });
            if is_detected {
                break;
            }
        }
        assert!(is_detected, "{} was not detected", fault.name());
    }
}

#[test]
fn an_approval_without_its_records_is_detected() {
    let faults = [(Fault::OpRowMissing, Invariant::EffectsOnce), (Fault::DecisionsNotRecorded, Invariant::Permission)];
    detects(&faults, async |test, variables| {
        test.run_single_node(0, variables).await;
        let mut waiting = test.chat(0, "twice").await.pause().await;
        for _ in 0..2 {
            let answer = test.approve_until_accepted(0, &TestCluster::approvals_of(&waiting)).await;
            if let Some(v1::approve_response::Outcome::AwaitingApproval(next)) = answer.outcome {
                waiting = next;
            }
        }
    });
}

#[test]
fn a_second_writer_is_detected() {
    detects(&[(Fault::FenceOff, Invariant::VisibleEnd)], write_end_late);
}

#[test]
fn a_cancelled_call_that_is_not_closed_is_detected() {
    detects(&[(Fault::ClosingSkipped, Invariant::EffectsOnce)], async |test, variables| {
        cancel_during_write(test, variables, "write:before=hang").await;
    });
}

#[test]
fn a_closing_that_ignores_an_effect_is_detected() {
    detects(&[(Fault::ClosingSkipped, Invariant::EffectsOnce)], async |test, variables| {
        cancel_during_write(test, variables, "write:after=hang").await;
    });
}

#[test]
fn an_overwritten_edit_is_detected() {
    let faults = [(Fault::ExpectedIgnored, Invariant::EffectsOnce), (Fault::OpRowNoCondition, Invariant::EffectsOnce)];
    detects(&faults, async |test, variables| {
        let schema = test.schema("total").await;
        let own = [variables, &[("FOLIO_LATE_WRITE", "decision")]].concat();
        let waiting = test.paused_at(0, &schema.schema_id, &own, variables).await;
        test.approve_until_stopped(&TestCluster::approvals_of(&waiting), 0).await;
        test.revise(&schema, "edited").await;
        test.wait_until_idle(&waiting.turn_id).await;
        resume(test, 0).await;
    });
}

#[test]
fn a_recorded_decision_is_answered_after_the_expiry() {
    detects(&[], async |test, variables| {
        let own = [variables, &[("FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS", "20")]].concat();
        test.run_single_node(0, &own).await;
        let waiting = test.chat(0, "write").await.pause().await;
        let request = TestCluster::approvals_of(&waiting);
        test.approve_until_accepted(0, &request).await;
        wait_for_expiry(&waiting).await;
        let _ = test.approve(0, &request).await;
    });
}

#[test]
fn a_reported_expiry_is_stored_and_a_late_decision_is_refused() {
    // No fault is injected, because every operation that loads the thread writes the end and hides the fault. The model
    // check detects the fault.
    detects(&[], async |test, variables| {
        let slow = [
            ("FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS", "20"),
            ("FOLIO_CONVERSATION__SWEEP_INTERVAL_SECONDS", "3600"),
        ];
        let all = [variables, &slow].concat();
        let own = [&all[..], &[("FOLIO_LATE_WRITE", "append#2")]].concat();
        let waiting = test.paused_at(0, "write", &own, &all).await;
        let request = TestCluster::approvals_of(&waiting);
        test.approve_until_stopped(&request, 0).await;
        wait_for_expiry(&waiting).await;
        let _ = test.approve_until_answered(1, &request).await;
        resume(test, 0).await;
        let _ = test.approve_until_answered(1, &request).await;
        // The sweeps of the nodes are enabled. The index still contains the row of the previous epoch.
        for node in &mut test.cluster.nodes {
            node.kill();
        }
        test.start_others(variables).await;
    });
}

#[test]
fn a_turn_that_no_sweep_finds_is_detected() {
    detects(&[(Fault::OpenTurnRowMissing, Invariant::Busy)], async |test, variables| {
        test.run_single_node(0, variables).await;
        let stream = test.chat(0, "slow").await;
        test.cluster.sim.wait_for_waiting_request().await;
        test.node(0).kill();
        drop(stream);
        test.start_others(variables).await;
    });
}

/// Waits until a pause has expired.
async fn wait_for_expiry(waiting: &v1::AwaitingApproval) {
    let end = waiting.expire_time.expect("an expiry").seconds + 1;
    let now = || folio_types::Timestamp::now().as_second();
    let over = || std::future::ready((now() > end).then_some(()));
    folio_testkit::wait_for("the expiry", LIMIT, over).await;
}

/// Prices for which the reservation of a call exceeds its cost.
const PRICES: Variables<'_> = &[
    ("FOLIO_MODELS__PROVIDERS__SIM__MODELS__SCRIPTED__INPUT_PRICE", "1000"),
    ("FOLIO_MODELS__PROVIDERS__SIM__MODELS__SCRIPTED__OUTPUT_PRICE", "10000000"),
];

/// A clock that is a minute ahead.
#[derive(Debug)]
struct Ahead;

impl Environment for Ahead {
    fn now(&self) -> Timestamp {
        System.now() + Duration::from_secs(60)
    }

    fn random(&self) -> u128 {
        System.random()
    }
}

/// Reclaims credit like a process that needs credit: closes blocks whose calls ended or, by `clock`, passed their
/// deadline. The store has the fault of the scenario.
async fn reclaim(test: &TestCluster, clock: Arc<dyn Environment>, variables: Variables<'_>) {
    let (stores, org) = (test.stores(), &test.cluster.tenants[0].org);
    let fault = Fault::ALL.iter().find(|fault| variables.contains(&("FOLIO_FAULT", fault.name())));
    let faulty = fault.map_or_else(|| stores.clone(), |fault| decorate(stores, *fault));
    let escrow = Escrow::new(faulty.credit, stores.usage.clone(), clock);
    folio_testkit::wait_for("closed blocks", LIMIT, || async {
        escrow.reclaim(org).await.expect("the store answers");
        stores.credit.account(org).await.expect("the store answers").blocks.is_empty().then_some(())
    })
    .await;
}

#[test]
fn invariant_5_credit_that_is_acquired_twice_is_detected() {
    detects(&[(Fault::AccountVersionIgnored, Invariant::Spend)], async |test, variables| {
        let small = [
            ("FOLIO_CREDIT__MONTHLY_ALLOWANCE", "60"),
            ("FOLIO_CREDIT__BLOCK_CREDITS", "2"),
            ("FOLIO_CREDIT__BLOCK_CREDITS_MAX", "4"),
            ("FOLIO_CREDIT__BLOCK_SECONDS", "1"),
            ("FOLIO_CREDIT__IDLE_SECONDS", "0.2"),
        ];
        let all = [variables, &small].concat();
        test.run_single_node(0, &all).await;
        test.start_others(&all).await;
        for _ in 0..6 {
            let chats = (0..16).map(async |number| test.chat(number % 2, "hello").await.end().await);
            futures::future::join_all(chats).await;
        }
    });
}

#[test]
fn invariant_5_a_call_that_the_ledger_does_not_state_is_detected() {
    detects(&[(Fault::ReservationMissing, Invariant::Spend)], async |test, variables| {
        test.run_single_node(0, variables).await;
        test.chat(0, "hello").await.completed().await;
    });
}

#[test]
fn invariant_5_a_call_in_a_closed_block_is_detected() {
    detects(&[(Fault::SealIgnored, Invariant::Spend)], async |test, variables| {
        test.run_single_node(0, variables).await;
        test.chat(0, "hello").await.completed().await;
        reclaim(test, Arc::new(System), variables).await;
        test.chat(0, "hello").await.completed().await;
    });
}

#[test]
fn invariant_5_a_call_that_is_charged_twice_is_detected() {
    detects(&[(Fault::SettlementRepeated, Invariant::Spend)], async |test, variables| {
        // A reservation lasts longer than a call, and less than the minute by which the other clock is ahead.
        let short = [
            ("FOLIO_CREDIT__RESERVATION_SECONDS", "45"),
            ("FOLIO_CREDIT__BLOCK_SECONDS", "1"),
            ("FOLIO_CREDIT__IDLE_SECONDS", "1"),
        ];
        test.run_single_node(0, &[PRICES, &short].concat()).await;
        let stream = test.chat(0, "slow").await;
        test.cluster.sim.wait_for_waiting_request().await;
        reclaim(test, Arc::new(Ahead), variables).await;
        test.cluster.sim.open_gate("never").await;
        stream.completed().await;
    });
}
