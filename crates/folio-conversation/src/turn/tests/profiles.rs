//! The recorded profile of a turn decides, whatever profiles the binary has.

use folio_resources::policy::{Approver, Policy, Rule, Ruling};

use super::*;

/// A turn with the profile of the rig and these rules, after the model requested these calls.
fn turn_with(rules: Vec<Rule>, calls: &[&str]) -> Rig {
    let mut rig = Rig::new();
    rig.start_as("hello", |start| {
        start.options.profile = Some(rig::profile());
        start.options.policy = Policy { rules };
    });
    rig.reply(calls_reply(calls));
    rig
}

#[test]
fn a_call_waits_if_the_recorded_profile_says_so_also_after_a_crash() {
    let mut rig = turn_with(Vec::new(), &["w1", "r1"]);
    rig.finish();
    assert_eq!(rig.aggregates.calls(), ["1.1.1"], "the profile runs this tool without approval");

    let mut rig = Rig::new();
    rig.start_as("hello", |start| start.options.profile = Some(rig::profile()));
    rig.crash();
    rig.resume();
    rig.reply(calls_reply(&["w1", "w2"]));
    let EventKind::AwaitingApproval { pending, .. } = rig.last_event() else { panic!("{:?}", rig.last_event()) };
    assert_eq!(pending.iter().map(|call| call.needs_approval).collect::<Vec<_>>(), [false, true]);
    assert!(rig.aggregates.effects.is_empty(), "invariant 2: no call of the round runs before the decision");
    rig.decide(1, &[approve(2)]);
    rig.finish();
    assert_eq!(rig.aggregates.calls(), ["1.1.1", "1.1.2"]);
}

#[test]
fn invariant_2_the_policy_overrides_the_profile() {
    let rule = |ruling| Rule { tools: vec!["w1".to_owned()], ..Rule::new("two eyes", ruling) };
    let mut rig = turn_with(vec![rule(Ruling::Ask(Approver::default()))], &["w1"]);
    assert!(matches!(rig.last_event(), EventKind::AwaitingApproval { .. }), "{:?}", rig.last_event());
    rig.decide(1, &[approve(1)]);
    rig.finish();
    assert_eq!(rig.aggregates.calls(), ["1.1.1"]);

    let mut rig = turn_with(vec![rule(Ruling::Deny)], &["w1"]);
    rig.finish();
    let result = rig.record().call(1, 1).unwrap().result.clone().unwrap();
    assert!(result.status == CallStatus::Failed && result.content.contains("two eyes"), "{result:?}");
    assert!(rig.aggregates.effects.is_empty());

    let allow = Rule { tools: vec!["w2".to_owned()], ..Rule::new("free", Ruling::Allow) };
    let mut rig = turn_with(vec![allow], &["w2"]);
    rig.finish();
    assert_eq!(rig.aggregates.calls(), ["1.1.1"]);
}

#[test]
fn a_write_that_the_recorded_profile_does_not_name_waits() {
    let rig = turn_with(Vec::new(), &["w3"]);
    assert!(matches!(rig.last_event(), EventKind::AwaitingApproval { .. }), "{:?}", rig.last_event());
}
