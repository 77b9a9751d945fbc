//! Calls that refer to the results of earlier calls of their round.

use folio_history::journal::Entry;
use folio_resources::policy::{Approver, Condition, Policy, Rule, Ruling, Test};
use serde_json::Value;

use super::*;

/// Returns an answer with calls of these tools with these arguments.
fn reply_with(calls: &[(&str, Value)]) -> Reply {
    let names: Vec<&str> = calls.iter().map(|(name, _)| *name).collect();
    let mut reply = calls_reply(&names);
    for (call, (_, arguments)) in reply.calls.iter_mut().zip(calls) {
        call.arguments = arguments.clone();
    }
    reply
}

/// Three writes. The second refers to the first, and the third to both.
fn chain() -> [(&'static str, Value); 3] {
    [
        ("w1", json!({ "on": "w1" })),
        ("w2", json!({ "on": "w2", "name": "$w1.made_id", "x_id": "$w1.made_id" })),
        ("w3", json!({ "on": "w3", "x_ids": ["$w2.made_id", "x_0"], "y_revid": "$w1[1].made_id" })),
    ]
}

/// The arguments of [`chain`] with the ids that the store returns.
fn chain_with_ids() -> [Value; 3] {
    [
        json!({ "on": "w1" }),
        json!({ "on": "w2", "name": "$w1.made_id", "x_id": "x_1" }),
        json!({ "on": "w3", "x_ids": ["x_1", "x_0"], "y_revid": "x_1" }),
    ]
}

fn turn(rules: Vec<Rule>, auto_approve: bool, calls: &[(&str, Value)]) -> Rig {
    let mut rig = Rig::new();
    rig.start_as("hello", |start| {
        start.options.auto_approve = auto_approve;
        start.options.policy = Policy { rules };
    });
    rig.reply(reply_with(calls));
    rig
}

/// Returns a rule for calls of `w2` with an id that no model or person wrote.
fn rule_for_id(ruling: Ruling) -> Rule {
    let arguments = vec![Condition { path: "x_id".into(), test: Test::Equals(json!("x_1")) }];
    Rule { tools: vec!["w2".into()], arguments, ..Rule::new("made ids", ruling) }
}

fn ask(roles: &[Role]) -> Ruling {
    Ruling::Ask(Approver { roles: roles.to_vec(), not_by_requester: false })
}

/// Answers all work but model calls. Returns the arguments of the writes in the order in which they ran.
fn run_writes(rig: &mut Rig) -> Vec<Value> {
    let mut ran = Vec::new();
    loop {
        let writes = rig.work.iter().filter_map(|work| match work {
            Effect::RunTool(run, _) | Effect::Recover(run, _) => Some(run),
            _ => None,
        });
        for run in writes {
            assert_eq!(run.digest, Digest::of_json(&run.arguments));
            ran.push(run.arguments.clone());
        }
        if !rig.step() {
            return ran;
        }
    }
}

fn fail_plan(rig: &mut Rig, message: &str) {
    let work = rig.work.pop_front().expect("a call is being planned");
    assert!(matches!(work, Effect::PlanTool(..)), "{work:?}");
    let (round, index) = call_position(&work);
    rig.send(Command::Planned { round, index, plan: Err(PlanFailure::Failed(message.to_owned())) });
}

fn content(rig: &Rig, round: u32, index: u32) -> &str {
    &rig.record().call(round, index).unwrap().result.as_ref().unwrap().content
}

fn statuses(rig: &Rig, round: u32) -> Vec<Option<CallStatus>> {
    rig.record().round(round).unwrap().calls.iter().map(|call| call.status()).collect()
}

/// Returns the arguments in the stored intents.
fn intents(rig: &Rig) -> Vec<Option<Value>> {
    let arguments = |entry: &Entry| match entry {
        Entry::Intent(intent) => Some(intent.arguments.clone()),
        _ => None,
    };
    rig.store.entries.iter().filter_map(arguments).collect()
}

fn approve_all(count: u32) -> Vec<(u32, Decision)> {
    (1..=count).map(approve).collect()
}

#[test]
fn one_approval_covers_calls_that_refer_to_one_another_and_they_run_in_order() {
    let mut rig = turn(Vec::new(), false, &chain());
    let EventKind::AwaitingApproval { pending, .. } = rig.last_event() else { panic!() };
    for (shown, (_, arguments)) in pending.iter().zip(chain()) {
        assert_eq!((&shown.arguments, &shown.digest), (&arguments, &Digest::of_json(&arguments)));
    }
    let digests: Vec<Digest> = pending.iter().map(|shown| shown.digest.clone()).collect();
    let ticket = rig.decide_as(1, &approve_all(3), |decide| {
        for (requested, digest) in decide.decisions.iter_mut().zip(digests) {
            requested.digest = Some(digest);
        }
    });
    assert_eq!(run_writes(&mut rig), chain_with_ids());
    rig.reply(text_reply("done"));
    assert!(matches!(rig.decided(ticket).kind, EventKind::Completed { .. }));
    assert_eq!(rig.aggregates.calls(), ["1.1.1", "1.1.2", "1.1.3"]);
    let [_, second, third] = chain_with_ids();
    assert_eq!(intents(&rig), [None, Some(second), Some(third)]);
    let calls = &rig.record().round(1).unwrap().calls;
    assert!(calls.iter().zip(chain()).all(|(call, (_, sent))| *call.arguments() == sent), "the history has references");
    rig.check_stored();
}

#[test]
fn the_number_of_a_reference_selects_a_call_of_the_tool() {
    let third = json!({ "on": "w2", "x_id": "$w1[2].made_id" });
    let mut rig = turn(Vec::new(), true, &[("w1", json!({ "on": "a" })), ("w1", json!({ "on": "b" })), ("w2", third)]);
    rig.step();
    rig.step();
    fail_plan(&mut rig, "no");
    assert_eq!(statuses(&rig, 1)[1..], [Some(CallStatus::Failed), Some(CallStatus::NotRun)]);
    assert!(content(&rig, 1, 3).contains("$w1[2].made_id"), "{}", content(&rig, 1, 3));
}

#[test]
fn the_approver_may_edit_either_call() {
    let edited = |arguments: Value| Decision::ApproveEdited { arguments };
    let mut rig = turn(Vec::new(), false, &chain());
    let own = json!({ "on": "mine" });
    rig.decide(1, &[(1, edited(own.clone())), approve(2), approve(3)]);
    let [_, second, third] = chain_with_ids();
    assert_eq!(run_writes(&mut rig), [own, second, third], "the id is that of the edited call");

    let mut rig = turn(Vec::new(), false, &chain());
    let literal = json!({ "on": "w2", "x_id": "x_9" });
    let other = json!({ "on": "w3", "x_id": "$w2.made_id" });
    rig.decide(1, &[approve(1), (2, edited(literal.clone())), (3, edited(other))]);
    assert_eq!(run_writes(&mut rig), [json!({ "on": "w1" }), literal, json!({ "on": "w3", "x_id": "x_1" })]);
    assert_eq!(intents(&rig)[..2], [None, None], "the edited arguments have no reference");
}

#[test]
fn after_a_rejected_call_those_that_refer_to_it_do_not_run() {
    let mut calls = chain().to_vec();
    calls.push(("w4", json!({ "on": "w4" })));
    let mut rig = turn(Vec::new(), false, &calls);
    rig.decide(1, &[reject(1), approve(2), approve(3), approve(4)]);
    assert_eq!(run_writes(&mut rig), [json!({ "on": "w4" })]);
    let (rejected, not_run) = (Some(CallStatus::Rejected), Some(CallStatus::NotRun));
    assert_eq!(statuses(&rig, 1), [rejected, not_run, not_run, Some(CallStatus::Ok)]);
    let second = "Not run: the arguments refer to $w1.made_id, but the user rejected that call of w1.";
    assert_eq!(content(&rig, 1, 2), second);
    assert_eq!(content(&rig, 1, 3), second, "the third call refers to the first, too");
    assert_eq!(intents(&rig), [None]);
}

#[test]
fn after_a_failed_call_or_a_conflict_those_that_refer_to_it_do_not_run() {
    let mut rig = turn(Vec::new(), true, &chain());
    fail_plan(&mut rig, "no such schema");
    assert!(rig.calling().is_some() && rig.aggregates.effects.is_empty());
    assert_eq!(statuses(&rig, 1)[1..], [Some(CallStatus::NotRun); 2]);
    assert!(content(&rig, 1, 2).ends_with("but that call of w1 failed."), "{}", content(&rig, 1, 2));

    let mut rig = turn(Vec::new(), true, &chain());
    rig.step();
    let Some(Effect::RunTool(_, intent)) = rig.work.front().cloned() else { panic!() };
    rig.aggregates.versions.insert(intent.target.to_string(), 7);
    rig.run();
    assert_eq!(rig.status(1), Some(CallStatus::Conflict));
    assert!(content(&rig, 1, 2).ends_with("but the target of that call of w1 changed."), "{}", content(&rig, 1, 2));

    let mut rig = turn(Vec::new(), true, &[("w1", json!({})), ("w2", json!({ "x_id": "$w1.other_id" }))]);
    rig.run();
    assert_eq!(statuses(&rig, 1), [Some(CallStatus::Ok), Some(CallStatus::NotRun)]);
    assert!(content(&rig, 1, 2).ends_with("but the result of w1 has no other_id."), "{}", content(&rig, 1, 2));
}

#[test]
fn a_call_that_can_never_run_waits_for_no_decision() {
    let refers = |to: &str| json!({ "x_id": format!("${to}.made_id") });
    for calls in [
        [("bad", json!({})), ("w2", refers("bad")), ("w3", refers("w2"))],
        [("w1", refers("w1")), ("w2", refers("w1")), ("w3", refers("w4"))],
        [("w1", refers("w1[2]")), ("w2", refers("w3")), ("w3", refers("w2"))],
    ] {
        let mut rig = turn(Vec::new(), false, &calls);
        assert!(rig.calling().is_some() && !rig.log.contains(&"plan"), "no pause: {calls:?}");
        assert_eq!(statuses(&rig, 1)[1..], [Some(CallStatus::NotRun); 2], "{calls:?}");
        rig.reply(text_reply("sorry"));
        rig.check_stored();
    }
}

#[test]
fn reads_that_refer_to_one_another_run_one_after_another_and_the_others_concurrently() {
    let refers = json!({ "x_id": "$r1.made_id" });
    let mut rig = turn(Vec::new(), false, &[("r1", json!({})), ("r2", refers), ("r3", json!({}))]);
    let names = |rig: &Rig| {
        let name = |work: &Effect| match work {
            Effect::RunRead(run) => format!("{} {}", run.name, run.arguments),
            other => panic!("{other:?}"),
        };
        rig.work.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(&rig), ["r1 {}", "r3 {}"]);
    rig.work.clear();
    for index in [3, 1] {
        let outcome = ToolOutcome::Done(result(r#"{"made_id":"x_7"}"#));
        rig.send(Command::ToolFinished { round: 1, index, outcome });
    }
    assert_eq!(names(&rig), [r#"r2 {"x_id":"x_7"}"#]);
    rig.finish();
    rig.check_stored();
}

#[test]
fn invariant_2_a_rule_that_denies_the_call_with_its_ids_ends_it() {
    for auto_approve in [false, true] {
        let mut rig = turn(vec![rule_for_id(Ruling::Deny)], auto_approve, &chain());
        if !auto_approve {
            rig.decide(1, &approve_all(3));
        }
        assert_eq!(run_writes(&mut rig), [json!({ "on": "w1" })]);
        assert_eq!(statuses(&rig, 1), [Some(CallStatus::Ok), Some(CallStatus::Failed), Some(CallStatus::NotRun)]);
        assert!(content(&rig, 1, 2).contains("policy denies"), "{}", content(&rig, 1, 2));
        assert_eq!(intents(&rig), [None]);
    }
}

#[test]
fn invariant_2_a_rule_that_asks_for_the_call_with_its_ids_pauses_again() {
    let mut calls = chain().to_vec();
    calls.push(("w4", json!({ "on": "w4" })));
    for auto_approve in [false, true] {
        let mut rig = turn(vec![rule_for_id(ask(&[Role::Admin]))], auto_approve, &calls);
        let first = (!auto_approve).then(|| rig.decide(1, &approve_all(4)));
        assert_eq!(run_writes(&mut rig), [json!({ "on": "w1" }), json!({ "on": "w4" })]);
        let (ok, not_run) = (Some(CallStatus::Ok), Some(CallStatus::NotRun));
        assert_eq!(statuses(&rig, 1), [ok, not_run, not_run, ok]);
        assert!(content(&rig, 1, 2).contains("requires another approval"), "{}", content(&rig, 1, 2));
        let EventKind::AwaitingApproval { round: 2, pending, .. } = rig.last_event() else { panic!() };
        let shown: Vec<_> = pending.iter().map(|call| (call.arguments.clone(), call.needs_approval)).collect();
        let [_, second, _] = chain_with_ids();
        let third = json!({ "on": "w3", "x_ids": ["$w2.made_id", "x_0"], "y_revid": "x_1" });
        assert_eq!(shown, [(second.clone(), true), (third, !auto_approve)]);
        assert_eq!(pending[0].approval_requirement.as_ref().unwrap().rule, "made ids");
        rig.check_stored();
        rig.crash();
        if let Some(first) = first {
            let repeated = rig.decide(1, &approve_all(4));
            assert_eq!(rig.decided(repeated), rig.decided(first), "invariant 7");
        }
        let denied = rig.decide(2, &approve_all(2));
        assert_eq!(rig.refusal(denied), Some(Reason::PolicyDenied), "a member");
        rig.decide_as(2, &approve_all(2), |decide| decide.by.role = Role::Admin);
        let [_, second, third] = chain_with_ids();
        assert_eq!(run_writes(&mut rig), [second, third]);
        rig.reply(text_reply("done"));
        assert_eq!(rig.aggregates.calls(), ["1.1.1", "1.1.4", "1.2.1", "1.2.2"], "invariant 3");
        rig.check_stored();
    }
}

#[test]
fn a_repeated_call_has_the_arguments_of_the_approver_and_a_rejected_one_does_not_run() {
    let mut rig = turn(vec![rule_for_id(ask(&[Role::Admin]))], false, &chain());
    let edited = json!({ "on": "mine", "x_id": "$w1.made_id" });
    rig.decide(1, &[approve(1), (2, Decision::ApproveEdited { arguments: edited }), approve(3)]);
    rig.run();
    let EventKind::AwaitingApproval { pending, .. } = rig.last_event() else { panic!() };
    assert_eq!(pending[0].arguments, json!({ "on": "mine", "x_id": "x_1" }));
    rig.decide(2, &[reject(1), approve(2)]);
    rig.finish();
    assert_eq!(statuses(&rig, 2), [Some(CallStatus::Rejected), Some(CallStatus::NotRun)]);
    assert_eq!(rig.aggregates.calls(), ["1.1.1"]);
}

#[test]
fn a_rule_that_the_decision_satisfied_does_not_pause_again() {
    let rule = Rule { tools: vec!["w2".into(), "w3".into()], ..Rule::new("writes", ask(&[Role::Admin])) };
    let mut rig = turn(vec![rule], false, &chain());
    rig.decide_as(1, &approve_all(3), |decide| decide.by.role = Role::Admin);
    assert_eq!(run_writes(&mut rig), chain_with_ids());
    rig.reply(text_reply("done"));
    assert!(matches!(rig.last_event(), EventKind::Completed { .. }));
}

#[test]
fn invariant_2_a_policy_that_changed_applies_to_the_call_with_its_ids() {
    let current = |ruling| Policy { rules: vec![rule_for_id(ruling)] };
    // The shell evaluates the current policy when it plans the call.
    let mut rig = turn(Vec::new(), false, &chain());
    rig.decide_as(1, &approve_all(3), |decide| decide.current.policy = current(Ruling::Deny));
    rig.step();
    rig.step();
    let Some(Effect::PlanTool(run, _)) = rig.work.front() else { panic!("{:?}", rig.work) };
    assert_eq!(run.arguments, chain_with_ids()[1], "the plan evaluates the ids");
    fail_plan(&mut rig, "The organization's policy denies this call");
    assert_eq!(statuses(&rig, 1), [Some(CallStatus::Ok), Some(CallStatus::Failed), Some(CallStatus::NotRun)]);

    let mut rig = turn(vec![rule_for_id(ask(&[]))], false, &chain());
    rig.decide(1, &approve_all(3));
    rig.run();
    let denied = rig.decide_as(2, &approve_all(2), |decide| decide.current.policy = current(Ruling::Deny));
    assert_eq!(rig.refusal(denied), Some(Reason::PolicyDenied), "the decision covers the ids");
}

#[test]
fn invariant_3_a_crash_at_any_step_of_a_chain_has_each_effect_once() {
    for rules in [Vec::new(), vec![rule_for_id(ask(&[]))]] {
        for steps in 0..=7 {
            let mut rig = turn(rules.clone(), false, &chain());
            rig.decide(1, &approve_all(3));
            for _ in 0..steps {
                rig.step();
            }
            rig.crash();
            let repeated = rig.decide(1, &approve_all(3));
            rig.run();
            if !rules.is_empty() {
                assert!(matches!(rig.decided(repeated).kind, EventKind::AwaitingApproval { round: 2, .. }), "{steps}");
                rig.decide(2, &approve_all(2));
                rig.run();
            }
            rig.reply(text_reply("done"));
            let [_, second, third] = chain_with_ids();
            // The repeated calls have ids in place of the references to calls of the first round.
            let second = rules.is_empty().then_some(second);
            assert_eq!(intents(&rig), [None, second, Some(third)], "{steps}");
            assert_eq!(rig.aggregates.effects.len(), 3, "{steps}");
            rig.check_stored();
        }
    }
}

#[test]
fn a_takeover_without_a_request_runs_the_decided_calls_with_their_ids() {
    let mut rig = turn(Vec::new(), false, &chain());
    rig.decide(1, &approve_all(3));
    rig.step();
    rig.step();
    assert_eq!(rig.aggregates.calls(), ["1.1.1"], "the outcome is not appended yet");
    rig.crash();
    rig.send(Command::TakeOver);
    assert_eq!(run_writes(&mut rig), chain_with_ids());
    assert_eq!(rig.aggregates.calls(), ["1.1.1", "1.1.2", "1.1.3"]);
    assert!(matches!(rig.end(), Some(End::Failed { retriable: true, .. })));
}

#[test]
fn a_recovered_call_runs_with_the_ids_of_its_intent() {
    let mut rig = turn(Vec::new(), false, &chain());
    rig.decide(1, &approve_all(3));
    for _ in 0..3 {
        rig.step();
    }
    assert!(matches!(rig.work.front(), Some(Effect::RunTool(run, _)) if run.call.index == 2));
    rig.crash();
    rig.send(Command::TakeOver);
    let Some(Effect::Recover(run, intent)) = rig.work.front() else { panic!("{:?}", rig.work) };
    assert_eq!((&run.arguments, intent.arguments.as_ref()), (&chain_with_ids()[1], Some(&chain_with_ids()[1])));
}

#[test]
fn a_call_that_did_not_run_is_not_refused_after_the_correction_of_the_other() {
    let refers = || ("w2", json!({ "on": "w2", "x_id": "$w1.made_id" }));
    let mut rig = Rig::new();
    rig.start_as("hello", |start| start.options.auto_approve = true);
    for wrong in ["a", "b"] {
        rig.reply(reply_with(&[("w1", json!({ "on": wrong })), refers()]));
        fail_plan(&mut rig, "wrong");
    }
    rig.reply(reply_with(&[("w1", json!({ "on": "c" })), refers()]));
    rig.run();
    assert_eq!(statuses(&rig, 3), [Some(CallStatus::Ok); 2]);
}

#[test]
fn rounds_in_which_calls_fail_or_do_not_run_are_no_progress() {
    let mut rig = Rig::new();
    rig.start_as("hello", |start| start.options.auto_approve = true);
    for round in 1..=3 {
        let refers = json!({ "on": format!("other {round}"), "x_id": "$w1.made_id" });
        rig.reply(reply_with(&[("w1", json!({ "on": round.to_string() })), ("w2", refers)]));
        fail_plan(&mut rig, "wrong");
    }
    assert!(matches!(rig.end(), Some(End::Failed { error, retriable: false }) if error.reason == Reason::NoProgress));
}

#[test]
fn identical_failures_are_those_with_the_same_ids() {
    let calls = [("w1", json!({ "on": "w1" })), ("w2", json!({ "on": "w2", "x_id": "$w1.made_id" }))];
    let mut rig = turn(Vec::new(), true, &calls);
    for round in 1..=3 {
        rig.step();
        // The third creation returns another id.
        let id = if round < 3 { "x_1" } else { "x_3" };
        let Some(Effect::RunTool(..)) = rig.work.pop_front() else { panic!() };
        let outcome = ToolOutcome::Done(result(&json!({ "made_id": id }).to_string()));
        rig.send(Command::ToolFinished { round, index: 1, outcome });
        fail_plan(&mut rig, "wrong");
        if round < 3 {
            rig.reply(reply_with(&calls));
        }
    }
    assert_eq!(content(&rig, 3, 2), "wrong", "the call with the other id was planned");
    assert!(content(&rig, 2, 2).starts_with("This call failed twice"), "{}", content(&rig, 2, 2));
}
