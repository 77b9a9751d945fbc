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
use folio_tests::faults::checker::Broken;
use folio_types::{Environment, System, Timestamp};

use crate::stage::{Stage, on_stage};
use crate::steps::cancel_amid;
use crate::stopped::{late_end, resume};

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
const TRIES: usize = 3;

/// Plays a scenario without a fault, and with each of these faults. The checker must find the violation of each fault.
fn detects(faults: &[(Fault, Broken)], scenario: impl AsyncFn(&mut Stage, Variables<'_>)) {
    on_stage(SCRIPT, async |stage| {
        scenario(stage, &[]).await;
        stage.assert_clean().await;
    });
    for (fault, broken) in faults {
        println!("{}", fault.name());
        let mut shows = false;
        for _ in 0..TRIES {
            on_stage(SCRIPT, async |stage| {
                scenario(stage, &[("FOLIO_FAULT", fault.name())]).await;
                shows = stage.is_broken(*broken).await;
            });
            if shows {
                break;
            }
        }
        assert!(shows, "{} was not found", fault.name());
    }
}

#[test]
fn an_approval_without_its_records_is_detected() {
    let faults = [(Fault::OpRowMissing, Broken::EffectsOnce), (Fault::DecisionsNotRecorded, Broken::Permission)];
    detects(&faults, async |stage, variables| {
        stage.alone(0, variables).await;
        let mut waiting = stage.chat(0, "twice").await.pause().await;
        for _ in 0..2 {
            let answer = stage.approve(0, &Stage::all_of(&waiting)).await.unwrap();
            if let Some(v1::approve_response::Outcome::AwaitingApproval(next)) = answer.outcome {
                waiting = next;
            }
        }
    });
}

#[test]
fn a_second_writer_is_detected() {
    detects(&[(Fault::FenceOff, Broken::VisibleEnd)], late_end);
}

#[test]
fn a_cancelled_call_that_is_not_closed_is_detected() {
    detects(&[(Fault::ClosingSkipped, Broken::EffectsOnce)], async |stage, variables| {
        cancel_amid(stage, variables, "write:before=hang").await;
    });
}

#[test]
fn a_closing_that_ignores_an_effect_is_detected() {
    detects(&[(Fault::ClosingSkipped, Broken::EffectsOnce)], async |stage, variables| {
        cancel_amid(stage, variables, "write:after=hang").await;
    });
}

#[test]
fn an_overwritten_edit_is_detected() {
    let faults = [(Fault::ExpectedIgnored, Broken::EffectsOnce), (Fault::OpRowNoCondition, Broken::EffectsOnce)];
    detects(&faults, async |stage, variables| {
        let schema = stage.schema("total").await;
        let own = [variables, &[("FOLIO_LATE_WRITE", "decision")]].concat();
        let waiting = stage.paused_at(0, &schema.schema_id, &own, variables).await;
        stage.approve_until_stopped(&Stage::all_of(&waiting), 0).await;
        stage.revise(&schema, "edited").await;
        stage.until_not_busy(&waiting.turn_id).await;
        resume(stage, 0).await;
    });
}

#[test]
fn a_recorded_decision_is_answered_after_the_expiry() {
    detects(&[], async |stage, variables| {
        let own = [variables, &[("FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS", "2")]].concat();
        stage.alone(0, &own).await;
        let waiting = stage.chat(0, "write").await.pause().await;
        let request = Stage::all_of(&waiting);
        stage.approve(0, &request).await.unwrap();
        until_over(&waiting).await;
        let _ = stage.approve(0, &request).await;
    });
}

#[test]
fn a_reported_expiry_is_stored_and_a_late_decision_is_refused() {
    // No fault is injected, because every operation that loads the thread writes the end and hides the fault. The model
    // check detects the fault.
    detects(&[], async |stage, variables| {
        let slow = [
            ("FOLIO_CONVERSATION__APPROVAL_TTL_SECONDS", "12"),
            ("FOLIO_CONVERSATION__SWEEP_INTERVAL_SECONDS", "3600"),
        ];
        let all = [variables, &slow].concat();
        let own = [&all[..], &[("FOLIO_LATE_WRITE", "append#2")]].concat();
        let waiting = stage.paused_at(0, "write", &own, &all).await;
        let request = Stage::all_of(&waiting);
        stage.approve_until_stopped(&request, 0).await;
        until_over(&waiting).await;
        let _ = stage.approve_until_answered(1, &request).await;
        resume(stage, 0).await;
        let _ = stage.approve_until_answered(1, &request).await;
        // The sweeps of the nodes are enabled. The index still contains the row of the previous epoch.
        for node in &mut stage.cluster.nodes {
            node.kill();
        }
        stage.start_others(variables).await;
    });
}

#[test]
fn a_turn_that_no_sweep_finds_is_detected() {
    detects(&[(Fault::OpenTurnRowMissing, Broken::Busy)], async |stage, variables| {
        stage.alone(0, variables).await;
        let stream = stage.chat(0, "slow").await;
        stage.cluster.sim.until_held().await;
        stage.node(0).kill();
        drop(stream);
        stage.start_others(variables).await;
    });
}

/// Waits until a pause has expired.
async fn until_over(waiting: &v1::AwaitingApproval) {
    let end = waiting.expire_time.expect("an expiry").seconds + 1;
    let now = || folio_types::Timestamp::now().as_second();
    let over = || std::future::ready((now() > end).then_some(()));
    folio_testkit::wait_for("the expiry", Duration::from_secs(20), over).await;
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
async fn reclaim(stage: &Stage, clock: Arc<dyn Environment>, variables: Variables<'_>) {
    let (stores, org) = (stage.stores(), &stage.cluster.tenants[0].org);
    let fault = Fault::ALL.iter().find(|fault| variables.contains(&("FOLIO_FAULT", fault.name())));
    let faulty = fault.map_or_else(|| stores.clone(), |fault| decorate(stores, *fault));
    let escrow = Escrow::new(faulty.credit, stores.usage.clone(), clock);
    folio_testkit::wait_for("blocks that are closed", folio_tests::harness::LIMIT, || async {
        escrow.reclaim(org).await.expect("the store answers");
        stores.credit.account(org).await.expect("the store answers").blocks.is_empty().then_some(())
    })
    .await;
}

#[test]
fn invariant_5_credit_that_is_acquired_twice_is_detected() {
    detects(&[(Fault::AccountVersionIgnored, Broken::Spend)], async |stage, variables| {
        let small = [
            ("FOLIO_CREDIT__MONTHLY_ALLOWANCE", "60"),
            ("FOLIO_CREDIT__BLOCK_CREDITS", "2"),
            ("FOLIO_CREDIT__BLOCK_CREDITS_MAX", "4"),
            ("FOLIO_CREDIT__BLOCK_SECONDS", "1"),
            ("FOLIO_CREDIT__IDLE_SECONDS", "0.2"),
        ];
        let all = [variables, &small].concat();
        stage.alone(0, &all).await;
        stage.start_others(&all).await;
        for _ in 0..6 {
            let chats = (0..16).map(async |number| stage.chat(number % 2, "hello").await.end().await);
            futures::future::join_all(chats).await;
        }
    });
}

#[test]
fn invariant_5_a_call_in_a_closed_block_is_detected() {
    detects(&[(Fault::SealIgnored, Broken::Spend)], async |stage, variables| {
        stage.alone(0, variables).await;
        stage.chat(0, "hello").await.completed().await;
        reclaim(stage, Arc::new(System), variables).await;
        stage.chat(0, "hello").await.completed().await;
    });
}

#[test]
fn invariant_5_a_call_that_is_charged_twice_is_detected() {
    detects(&[(Fault::SettledAgain, Broken::Spend)], async |stage, variables| {
        // A reservation lasts longer than a call, and less than the minute by which the other clock is ahead.
        let short = [
            ("FOLIO_CREDIT__RESERVATION_SECONDS", "45"),
            ("FOLIO_CREDIT__BLOCK_SECONDS", "1"),
            ("FOLIO_CREDIT__IDLE_SECONDS", "1"),
        ];
        stage.alone(0, &[PRICES, &short].concat()).await;
        let stream = stage.chat(0, "slow").await;
        stage.cluster.sim.until_held().await;
        reclaim(stage, Arc::new(Ahead), variables).await;
        stage.cluster.sim.open("never").await;
        stream.completed().await;
    });
}
