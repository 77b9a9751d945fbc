//! The organization's policy, which overrides the approvals of a request.

use folio_resources::policy::{Approver, Condition, Policy, Rule, Ruling, Test};

use super::*;
use crate::turn::CallPlan;
use folio_types::op::Expected;

fn rule(tools: &[&str], ruling: Ruling) -> Rule {
    Rule { tools: tools.iter().map(|name| (*name).to_owned()).collect(), ..Rule::new("a rule", ruling) }
}

#[derive(Debug, Clone, Copy)]
enum Approved {
    Nothing,
    Everything,
    /// All tools, by name.
    ByToolName,
}

/// A turn under these rules, after the model's first answer.
fn turn_with_policy(rules: Vec<Rule>, approved: Approved, calls: &[&str]) -> Rig {
    let mut rig = Rig::new();
    rig.start_as("hello", |start| {
        match approved {
            Approved::Nothing => {}
            Approved::Everything => start.options.auto_approve = true,
            Approved::ByToolName => start.options.auto_approved_tools = ["w1", "w2", "r1"].map(String::from).to_vec(),
        }
        start.options.policy = Policy { rules };
    });
    rig.reply(calls_reply(calls));
    rig
}

#[test]
fn a_denied_call_never_runs_and_its_result_states_the_reason() {
    for approved in [Approved::Everything, Approved::ByToolName] {
        let mut rig = turn_with_policy(vec![rule(&["w1", "r1"], Ruling::Deny)], approved, &["w1", "r1", "w2"]);
        rig.finish();
        assert_eq!(rig.aggregates.calls(), ["1.1.3"], "invariant 2: {approved:?}");
        assert!(!rig.log.contains(&"read"), "{approved:?}");
        for index in [1, 2] {
            let result = rig.record().call(1, index).unwrap().result.clone().unwrap();
            assert_ne!(result.status, CallStatus::Ok);
            assert!(result.content.contains("policy"), "{}", result.content);
        }
    }
}

#[test]
fn the_policy_is_not_evaluated_for_calls_beyond_the_limits_of_a_round() {
    let names = vec!["w1"; limits::CALLS_PER_ROUND_MAX + 1];
    let rig = turn_with_policy(vec![rule(&["w1"], Ruling::Deny)], Approved::Everything, &names);
    let calls = &rig.record().round(1).unwrap().calls;
    let problems: Vec<&str> = calls.iter().map(|call| call.call.problem.as_deref().unwrap()).collect();
    let (beyond, denied) = problems.split_last().unwrap();
    assert!(denied.iter().all(|problem| problem.contains("policy")), "{denied:?}");
    assert!(beyond.contains("more than 32 calls"), "{beyond}");
}

#[test]
fn invariant_2_a_call_that_a_rule_asks_for_waits_even_with_auto_approve() {
    let both = [Approved::Everything, Approved::ByToolName];
    for (name, approved) in ["w1", "r1"].into_iter().flat_map(|name| both.map(|approved| (name, approved))) {
        let rules = || vec![rule(&["w1", "r1"], Ruling::Ask(Approver::default()))];
        let mut rig = turn_with_policy(rules(), approved, &[name]);
        assert!(rig.work.is_empty(), "{name} {approved:?}");
        let EventKind::AwaitingApproval { pending, .. } = rig.last_event() else { panic!("{name}") };
        assert!(pending[0].needs_approval, "{name}");
        rig.decide(1, &[reject(1)]);
        rig.run();
        rig.reply(text_reply("well"));
        assert!(rig.aggregates.effects.is_empty() && !rig.log.contains(&"read"), "{name}");

        let mut rig = turn_with_policy(rules(), approved, &[name]);
        let ticket = rig.decide(1, &[approve(1)]);
        rig.finish();
        assert!(matches!(rig.decided(ticket).kind, EventKind::Completed { .. }), "{name}");
        assert_eq!(rig.status(1), Some(CallStatus::Ok), "{name}");
    }
}

#[test]
fn a_call_that_a_rule_allows_runs_without_approval() {
    let mut rig = turn_with_policy(vec![rule(&[], Ruling::Allow)], Approved::Nothing, &["w1"]);
    assert!(matches!(rig.work.front(), Some(Effect::PlanTool(..))));
    rig.finish();
    assert_eq!(rig.aggregates.calls(), ["1.1.1"]);
}

#[test]
fn an_approval_without_permission_is_refused_and_not_recorded_also_after_a_crash() {
    let ask = Ruling::Ask(Approver { roles: vec![Role::Admin], not_by_requester: true });
    let mut rig = turn_with_policy(vec![rule(&["w1"], ask)], Approved::Nothing, &["w1", "w2"]);
    rig.crash();
    let (requester, other) = (UserId::derive(&["user"]), UserId::derive(&["other"]));
    let own = rig.decide_as(1, &[approve(1)], |decide| decide.by.role = Role::Admin);
    let member = rig.decide_as(1, &[approve(2), approve(1)], |decide| decide.by.user = other.clone());
    let second_identity = rig.decide_as(1, &[approve(1)], |decide| {
        (decide.by.user, decide.by.role, decide.by.token_creator) = (other.clone(), Role::Admin, Some(requester));
    });
    let refused = [own, member, second_identity];
    assert_eq!(refused.map(|ticket| rig.refusal(ticket)), [Some(Reason::PolicyDenied); 3]);
    assert_eq!(rig.journal().last().unwrap(), "paused", "a request is refused as a whole");
    let ticket =
        rig.decide_as(1, &[approve(1), approve(2)], |decide| (decide.by.user, decide.by.role) = (other, Role::Admin));
    rig.finish();
    assert!(matches!(rig.decided(ticket).kind, EventKind::Completed { .. }));
    assert_eq!(rig.aggregates.calls(), ["1.1.1", "1.1.2"]);
}

#[test]
fn the_policy_is_evaluated_with_the_normalized_arguments() {
    let on = |value: &str, ruling| Rule {
        arguments: vec![Condition { path: "on".into(), test: Test::Equals(json!(value)) }],
        ..rule(&[], ruling)
    };
    let admins = Ruling::Ask(Approver { roles: vec![Role::Admin], not_by_requester: false });
    let edited = |on: &str| (1, Decision::ApproveEdited { arguments: json!({ "on": on }) });
    let mut rig = turn_with_policy(vec![on("never", Ruling::Deny), on("w1", admins)], Approved::Everything, &["w1"]);
    let unedited = rig.decide(1, &[approve(1)]);
    assert_eq!(rig.refusal(unedited), Some(Reason::PolicyDenied));
    let denied_edit = rig.decide_as(1, &[edited("never")], |decide| decide.by.role = Role::Admin);
    assert_eq!(rig.refusal(denied_edit), Some(Reason::PolicyDenied), "an admin cannot approve a denied call");
    rig.decide(1, &[edited("harmless")]);
    rig.finish();
    assert_eq!(rig.aggregates.calls(), ["1.1.1"]);
}

/// Plans a call of `create_schema` whose name exists. Returns the status of the call. None: the call runs.
fn revision(ruling: Ruling, approved: Approved) -> Option<CallStatus> {
    let mut rig = Rig::new();
    rig.start_as("hello", |start| {
        start.options.auto_approve = matches!(approved, Approved::Everything);
        start.options.policy = Policy { rules: vec![rule(&["update_schema"], ruling)] };
    });
    let mut reply = calls_reply(&["w1"]);
    reply.calls[0].name = "create_schema".into();
    rig.reply(reply);
    if matches!(approved, Approved::Nothing) {
        rig.decide(1, &[approve(1)]);
    }
    let Some(Effect::PlanTool(run, _)) = rig.work.pop_front() else { panic!("{:?}", rig.work) };
    let plan = CallPlan { expected: Expected::Version(3), ..rig.plan(&run) };
    rig.send(Command::Planned { round: 1, index: 1, plan: Ok(plan) });
    rig.status(1)
}

#[test]
fn a_creation_that_revises_an_existing_resource_obeys_the_rules_of_updates() {
    let ask = |roles: &[Role]| Ruling::Ask(Approver { roles: roles.to_vec(), not_by_requester: false });
    for (ruling, approved, status) in [
        (Ruling::Deny, Approved::Everything, Some(CallStatus::Failed)),
        (Ruling::Deny, Approved::Nothing, Some(CallStatus::Failed)),
        (ask(&[]), Approved::Everything, Some(CallStatus::Failed)),
        (ask(&[Role::Admin]), Approved::Nothing, Some(CallStatus::Failed)),
        (ask(&[]), Approved::Nothing, None),
        (Ruling::Allow, Approved::Everything, None),
    ] {
        assert_eq!(revision(ruling.clone(), approved), status, "invariant 2: {ruling:?} {approved:?}");
    }
}
