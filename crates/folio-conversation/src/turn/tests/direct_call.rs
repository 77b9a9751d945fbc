//! Turns that run a call of the client and call no model.

use folio_history::journal::{AcceptedCall, Access};
use folio_resources::policy::{Policy, Rule, Ruling};

use super::*;

fn call(name: &str, access: Access) -> AcceptedCall {
    let (arguments, problem, repairs) = (json!({}), None, Vec::new());
    AcceptedCall { name: name.to_owned(), arguments, access, problem, repairs }
}

/// Starts a turn with a direct call.
fn started(call: AcceptedCall) -> Rig {
    let mut rig = Rig::new();
    start(&mut rig, call);
    rig
}

fn start(rig: &mut Rig, call: AcceptedCall) {
    rig.start_as("Run the tool.", |start| {
        start.options.rounds_max = 2;
        start.options.direct_call = Some(Box::new(call));
    });
}

/// Checks that the turn completed after its only round, without a model call.
fn assert_completed(rig: &Rig, status: CallStatus) {
    let EventKind::Completed { rounds, text, .. } = rig.last_event() else { panic!("{:?}", rig.last_event()) };
    assert_eq!((rounds.len(), rounds[0].results[0].status), (1, status), "{rounds:?}");
    assert!(!text.is_empty(), "invariant 4: providers refuse an empty message");
    assert!(rig.calling().is_none(), "no model is called");
}

#[test]
fn a_read_runs_at_once_and_the_turn_costs_two_appends() {
    let mut rig = started(call("r1", Access::ReadOnly));
    rig.run();
    assert_completed(&rig, CallStatus::Ok);
    assert_eq!(rig.appends, 2);
    rig.check_stored();
}

#[test]
fn invariant_2_a_write_waits_and_runs_once_when_it_is_approved() {
    let mut rig = started(call("w1", Access::ReadWrite));
    rig.run();
    assert!(matches!(rig.last_event(), EventKind::AwaitingApproval { .. }), "{:?}", rig.last_event());
    assert!(rig.aggregates.calls().is_empty());
    rig.decide(1, &[approve(1)]);
    rig.run();
    assert_completed(&rig, CallStatus::Ok);
    assert_eq!(rig.aggregates.calls(), ["1.1.1"], "invariant 3");
}

#[test]
fn a_rejected_a_denied_and_an_invalid_call_end_without_an_effect() {
    let mut rig = started(call("w1", Access::ReadWrite));
    rig.decide(1, &[reject(1)]);
    rig.run();
    assert_completed(&rig, CallStatus::Rejected);

    let mut denied = Rig::new();
    denied.start_as("Run the tool.", |start| {
        start.options.rounds_max = 2;
        start.options.policy = Policy { rules: vec![Rule::new("never", Ruling::Deny)] };
        start.options.direct_call = Some(Box::new(call("w1", Access::ReadWrite)));
    });
    denied.run();
    assert_completed(&denied, CallStatus::Failed);

    let problem = Some("the arguments are wrong".to_owned());
    let invalid = started(AcceptedCall { problem, ..call("w1", Access::ReadWrite) });
    assert_completed(&invalid, CallStatus::Failed);
    for rig in [&rig, &denied, &invalid] {
        assert!(rig.aggregates.effects.is_empty());
    }
}

#[test]
fn a_turn_whose_owner_died_is_resumed_and_runs_its_call_once() {
    let mut rig = started(call("r1", Access::ReadOnly));
    rig.crash();
    rig.resume();
    rig.run();
    assert_completed(&rig, CallStatus::Ok);

    let mut rig = started(call("w1", Access::ReadWrite));
    rig.crash();
    rig.decide(1, &[approve(1)]);
    rig.run();
    assert_completed(&rig, CallStatus::Ok);
    assert_eq!(rig.aggregates.calls(), ["1.1.1"], "invariant 3");
}
