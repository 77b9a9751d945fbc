//! A turn follows its recorded profile, regardless of the profiles of the binary.

use folio_history::journal::TurnProfile;
use folio_history::json_bytes;
use folio_resources::policy::{Approver, Policy, Rule, Ruling};

use super::rig::{json_profile, wrong_reply};
use super::*;

/// A turn whose answer must be JSON.
fn json_turn() -> Rig {
    let mut rig = Rig::new();
    rig.start_as("hello", |start| start.options.profile = Some(json_profile()));
    rig
}

fn has_mismatch(rig: &Rig) -> bool {
    matches!(rig.end(), Some(End::Failed { error, retriable: false }) if error.reason == Reason::AnswerMismatch)
}

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

#[test]
fn a_wrong_answer_is_corrected_once() {
    let mut rig = json_turn();
    rig.reply(wrong_reply("The total is 7."));
    let sent = rig.record().messages();
    let [.., Message::Assistant { text, .. }, Message::User { text: correction, .. }] = sent.as_slice() else {
        panic!("{sent:?}")
    };
    assert_eq!(text, "The total is 7.");
    assert!(correction.ends_with("Violations:\n#/total: is missing"), "{correction}");
    assert_eq!(rig.calling().map(|call| call.round), Some(2));
    rig.reply(text_reply("{\"total\":7}"));
    assert!(matches!(rig.end(), Some(End::Completed { text, .. }) if text == "{\"total\":7}"), "{:?}", rig.end());
    assert_eq!(rig.journal(), ["accepted", "round", "ended"]);
    assert_eq!(rig.record().ended.as_ref().unwrap().usage.model_calls, 2);
    rig.check_stored();

    let mut rig = json_turn();
    rig.reply(wrong_reply("one"));
    rig.reply(wrong_reply("two"));
    assert!(has_mismatch(&rig), "{:?}", rig.end());
    assert_eq!(rig.record().ended.as_ref().unwrap().usage.model_calls, 2);
    rig.check_stored();
}

#[test]
fn a_correction_survives_the_node_and_is_made_once_in_a_turn() {
    let mut rig = json_turn();
    rig.reply(wrong_reply("one"));
    rig.reply(calls_reply(&["w2"]));
    assert!(matches!(rig.last_event(), EventKind::AwaitingApproval { .. }), "{:?}", rig.last_event());
    rig.crash();
    rig.decide(2, &[approve(1)]);
    rig.run();
    rig.reply(wrong_reply("two"));
    assert!(has_mismatch(&rig), "{:?}", rig.end());
    assert_eq!(rig.aggregates.calls(), ["1.2.1"], "the effect of the approved call remains");
}

#[test]
fn an_answer_after_an_approval_is_corrected_without_another_pause() {
    let mut rig = json_turn();
    rig.reply(calls_reply(&["w2"]));
    rig.decide(1, &[approve(1)]);
    rig.run();
    rig.reply(wrong_reply("one"));
    assert_eq!(rig.calling().map(|call| call.round), Some(3));
    rig.reply(text_reply("{}"));
    assert!(matches!(rig.end(), Some(End::Completed { .. })), "{:?}", rig.end());
}

#[test]
fn a_turn_that_reaches_its_limit_without_its_answer_fails() {
    let mut rig = Rig::new();
    rig.start_as("hello", |start| {
        start.options.profile = Some(json_profile());
        start.options.rounds_max = 2;
    });
    rig.reply(calls_reply(&["r1"]));
    rig.run();
    rig.reply(calls_reply(&["w1"]));
    assert!(has_mismatch(&rig), "{:?}", rig.end());
    assert!(rig.aggregates.effects.is_empty());

    let mut rig = Rig::new();
    rig.start_as("hello", |start| {
        start.options.profile = Some(json_profile());
        start.options.rounds_max = 1;
    });
    rig.reply(wrong_reply("one"));
    assert!(has_mismatch(&rig), "the last permitted round is not corrected: {:?}", rig.end());
}

#[test]
fn an_answer_that_would_be_truncated_does_not_match() {
    let mut rig = json_turn();
    rig.reply(text_reply(&"\u{1}".repeat(limits::MODEL_TEXT_BYTES)));
    assert_eq!(rig.calling().map(|call| call.round), Some(2), "the model corrects it");
    assert!(json_bytes(&rig.record().newest_round().unwrap().entry(1)) <= bounds::ENTRY_CONTENT_BYTES);
}

#[test]
fn text_is_never_corrected() {
    let mut rig = Rig::started();
    rig.reply(wrong_reply("hi"));
    assert!(matches!(rig.end(), Some(End::Completed { .. })), "{:?}", rig.end());
}

/// A turn that may run for 100 s.
fn timed_turn() -> Rig {
    let mut rig = Rig::new();
    rig.start_as("hello", |start| {
        start.options.profile = Some(TurnProfile { running_seconds: Some(100), ..rig::profile() });
    });
    rig
}

fn is_out_of_time(rig: &Rig) -> bool {
    matches!(rig.end(), Some(End::Failed { error, retriable: false }) if error.reason == Reason::RunningTimeExceeded)
}

fn time_left(rig: &Rig) -> u64 {
    rig.calling().unwrap().time_left.unwrap().as_secs()
}

#[test]
fn no_model_call_starts_after_the_running_time() {
    let mut rig = timed_turn();
    assert_eq!(time_left(&rig), 100);
    rig.wait(60);
    rig.reply(calls_reply(&["w1"]));
    rig.run();
    assert_eq!(time_left(&rig), 40);
    rig.wait(60);
    rig.reply(calls_reply(&["w1"]));
    rig.run();
    assert!(is_out_of_time(&rig), "{:?}", rig.end());
    assert_eq!(rig.aggregates.calls(), ["1.1.1", "1.2.1"], "the requested calls ran");
    rig.check_stored();
}

#[test]
fn pauses_and_failed_ends_do_not_count_as_running_time() {
    let mut rig = timed_turn();
    rig.wait(10);
    rig.reply(calls_reply(&["w2"]));
    rig.wait(200);
    rig.decide(1, &[approve(1)]);
    rig.run();
    assert_eq!(time_left(&rig), 90);
    rig.crash();
    rig.wait(5);
    rig.send(Command::TakeOver);
    rig.run();
    assert!(matches!(rig.end(), Some(End::Failed { retriable: true, .. })), "{:?}", rig.end());
    rig.wait(1_000);
    rig.resume();
    assert_eq!(time_left(&rig), 85);
}
