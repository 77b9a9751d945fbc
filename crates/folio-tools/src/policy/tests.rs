//! Tests of policies.

use folio_resources::policy::RULES_MAX;
use folio_types::OrgId;
use serde_json::json;

use super::*;

fn when(path: &str, test: Test) -> Policy {
    let arguments = vec![Condition { path: path.into(), test }];
    Policy { rules: vec![Rule { arguments, ..Rule::new("rule", Ruling::Deny) }] }
}

fn matches(policy: &Policy, arguments: &Value) -> bool {
    rule(policy, "create_tag", Access::ReadWrite, arguments).is_some()
}

#[test]
fn a_condition_tests_the_value_at_its_path() {
    let arguments =
        json!({"name": "urgent bills", "deep": {"list": [1, 2.5, 9_007_199_254_740_993_u64]}, "none": null});
    let number = |text: &str| text.parse::<Number>().unwrap();
    let matching = [
        ("name", Test::Equals(json!("urgent bills"))),
        ("deep.list[0]", Test::Equals(json!(1.0))),
        ("deep.list[2]", Test::Equals(json!(9_007_199_254_740_993_u64))),
        ("name", Test::In(vec![json!("x"), json!("urgent bills")])),
        ("name", Test::Matches("^urgent".into())),
        ("deep.list[1]", Test::Less(number("2.6"))),
        ("deep.list[2]", Test::Greater(number("9007199254740992"))),
        ("missing", Test::Absent),
        ("none", Test::Absent),
    ];
    for (path, test) in matching {
        assert!(matches(&when(path, test.clone()), &arguments), "{path} {test:?}");
    }
    let not_matching = [
        ("missing", Test::Equals(json!(null))),
        ("name", Test::Equals(json!("Urgent bills"))),
        ("name", Test::Matches("^bills".into())),
        ("deep", Test::Matches(".*".into())),
        ("name", Test::Less(number("5"))),
        ("deep.list[0]", Test::Less(number("1"))),
        ("deep.list[0]", Test::Greater(number("1"))),
        ("name", Test::Absent),
    ];
    for (path, test) in not_matching {
        assert!(!matches(&when(path, test.clone()), &arguments), "{path} {test:?}");
    }
}

#[test]
fn the_first_matching_rule_applies_and_a_read_needs_its_name() {
    let list = Rule { tools: vec!["list_tags".into()], ..Rule::new("no lists", Ruling::Deny) };
    let policy = Policy { rules: vec![list, Rule::new("writes", Ruling::Allow), Rule::new("never", Ruling::Deny)] };
    let found = |tool: &str, access| rule(&policy, tool, access, &json!({})).map(|rule| rule.name.clone());
    assert_eq!(found("create_tag", Access::ReadWrite), Some("writes".to_owned()));
    assert_eq!(found("list_tags", Access::ReadOnly), Some("no lists".to_owned()));
    assert_eq!(found("get_tag", Access::ReadOnly), None);
}

#[test]
fn a_turn_keeps_the_rules_for_its_requester_role_and_profile() {
    let (us, them) = (UserId::derive(&["us"]), UserId::derive(&["them"]));
    let rules = vec![
        Rule { users: vec![them], ..Rule::new("theirs", Ruling::Deny) },
        Rule { roles: vec![Role::Admin], ..Rule::new("admins", Ruling::Deny) },
        Rule { profiles: vec!["stack".into()], ..Rule::new("stack", Ruling::Deny) },
        Rule { users: vec![us.clone()], roles: vec![Role::Member], ..Rule::new("ours", Ruling::Deny) },
    ];
    let kept = Policy { rules }.of_turn(&us, Role::Member, "document", &[]);
    assert_eq!(kept.rules, [Rule::new("ours", Ruling::Deny)]);
}

#[test]
fn the_approvers_follow_from_the_rule_that_matches_the_final_arguments() {
    let (requester, other) = (UserId::derive(&["a"]), UserId::derive(&["b"]));
    let arguments = vec![Condition { path: "name".into(), test: Test::Equals(json!("big")) }];
    let ask = Ruling::Ask(Approver { roles: vec![Role::Admin], not_by_requester: true });
    let policy = Policy { rules: vec![Rule { arguments, ..Rule::new("four eyes", ask) }] };
    let approve = |by: &Principal, name: &str| {
        let arguments = json!({"name": name});
        may_approve(&policy, ("create_tag", Access::ReadWrite, &arguments), by, &requester)
    };
    let principal = |user: &UserId, role| Principal::new(OrgId::derive(&["o"]), user.clone(), role);
    let (requesting, approving) = (principal(&requester, Role::Admin), principal(&other, Role::Admin));
    let with_token_of =
        |creator: &str| Principal { token_creator: Some(UserId::derive(&[creator])), ..approving.clone() };
    assert!(approve(&requesting, "small").is_ok());
    assert!(approve(&approving, "big").is_ok());
    assert!(approve(&with_token_of("c"), "big").is_ok());
    assert!(approve(&with_token_of("a"), "small").is_ok());
    let refused = [requesting.clone(), principal(&other, Role::Member), with_token_of("a")];
    for refused in refused.map(|by| approve(&by, "big")) {
        let error = refused.unwrap_err();
        assert_eq!((error.code, error.reason), (Code::PermissionDenied, Reason::PolicyDenied));
    }
}

#[test]
fn invariant_2_a_call_that_waited_runs_only_if_the_current_rules_permit_it() {
    let (requester, other) = (UserId::derive(&["a"]), UserId::derive(&["b"]));
    let by = |user: &UserId, role| Some(Principal::new(OrgId::derive(&["o"]), user.clone(), role));
    let admins = Ruling::Ask(Approver { roles: vec![Role::Admin], not_by_requester: true });
    let (create, update) = ("create_schema", "update_schema");
    let (none, member, admin) = (None, by(&other, Role::Member), by(&other, Role::Admin));
    let (own, removed) = (by(&requester, Role::Admin), by(&other, Role::Viewer));
    let cases = [
        (Ruling::Allow, create, &none, Role::Member, true),
        (Ruling::Allow, create, &member, Role::Member, true),
        (Ruling::Allow, create, &member, Role::Viewer, false),
        (Ruling::Allow, create, &removed, Role::Member, false),
        (Ruling::Deny, create, &admin, Role::Member, false),
        (Ruling::Deny, "create_tag", &member, Role::Member, true),
        (admins.clone(), create, &none, Role::Member, false),
        (admins.clone(), create, &member, Role::Member, false),
        (admins.clone(), create, &own, Role::Admin, false),
        (admins.clone(), create, &admin, Role::Member, true),
        // The planned call revises an existing schema.
        (admins.clone(), update, &member, Role::Member, false),
        (admins.clone(), update, &admin, Role::Member, true),
        (Ruling::Deny, update, &admin, Role::Member, false),
    ];
    for (ruling, ruled, by, role, runs) in cases {
        let rule = Rule { tools: vec![ruled.into()], ..Rule::new("rule", ruling) };
        let current = CurrentRules { policy: Policy { rules: vec![rule] }, requester: role };
        let call = (create, Access::ReadWrite, &json!({}));
        let denial = current.denial(call, Expected::Version(1), by.as_ref(), &requester);
        assert_eq!(denial.is_none(), runs, "{current:?} {by:?} {denial:?}");
    }
}

#[test]
fn rules_that_never_match_are_rejected_by_field() {
    let names = PolicyNames { tools: &["create_tag"], profiles: &["document"] };
    let rejected_field = |policy: &Policy| {
        let error = check(policy, names).unwrap_err();
        error.violations.first().map(|violation| violation.field.clone()).unwrap_or_default()
    };
    let good = Rule {
        tools: vec!["create_tag".into()],
        profiles: vec!["document".into()],
        roles: vec![Role::Member, Role::Admin],
        ..Rule::new("good", Ruling::Deny)
    };
    assert_eq!(check(&Policy { rules: vec![good.clone()] }, names), Ok(()));
    let viewers = vec![Role::Admin, Role::Viewer];
    let viewer = Approver { roles: viewers.clone(), not_by_requester: false };
    for (field, rule) in [
        ("name", Rule { name: String::new(), ..good.clone() }),
        ("tools", Rule { tools: vec!["create_tag".into(), "create_tags".into()], ..good.clone() }),
        ("profiles", Rule { profiles: vec!["document".into(), "documents".into()], ..good.clone() }),
        ("roles", Rule { roles: viewers, ..good.clone() }),
        ("ask.roles", Rule { ruling: Ruling::Ask(viewer), ..good.clone() }),
    ] {
        let policy = Policy { rules: vec![good.clone(), rule] };
        assert_eq!(rejected_field(&policy), format!("policy.rules[1].{field}"));
    }
    for (field, policy) in [
        ("path", when("a..b", Test::Absent)),
        ("matches", when("a", Test::Matches("(".into()))),
        ("matches", when("a", Test::Matches(r"^\p{L}{1,40}$".into()))),
        ("equals_json", when("a", Test::Equals(Value::Null))),
        ("in_json", when("a", Test::In(Vec::new()))),
        ("in_json", when("a", Test::In(vec![json!("x"), Value::Null]))),
    ] {
        assert_eq!(rejected_field(&policy), format!("policy.rules[0].arguments[0].{field}"));
    }
    let many = Policy { rules: vec![Rule::new("x", Ruling::Allow); RULES_MAX + 1] };
    assert_eq!(rejected_field(&many), "policy.rules");
}

/// Creates a policy with one rule per pattern on the argument `name`.
fn searching(patterns: impl IntoIterator<Item = String>) -> Policy {
    let rules = patterns.into_iter().flat_map(|pattern| when("name", Test::Matches(pattern)).rules);
    Policy { rules: rules.collect() }
}

#[test]
fn the_patterns_of_a_policy_are_bounded_in_number_and_together() {
    let names = PolicyNames { tools: &[], profiles: &[] };
    let violation = |policy: &Policy| {
        let error = check(policy, names).unwrap_err();
        (error.violations.first().map(|violation| violation.field.clone()).unwrap_or_default(), error.message)
    };
    let words = |count: usize| searching((0..count).map(|n| format!("(?i)^word {n}$")));
    assert_eq!(check(&words(SEARCHES_MAX), names), Ok(()));
    let (field, message) = violation(&words(SEARCHES_MAX + 1));
    assert!(field == "policy.rules" && message.contains("the maximum is 20"), "{field}: {message}");

    let large = |count: usize| searching((0..count).map(|n| format!(r"^\w+ {n}$")));
    assert_eq!(check(&large(2), names), Ok(()));
    let (field, message) = violation(&large(4));
    assert!(field == "policy.rules" && message.contains("together"), "{field}: {message}");
}

#[test]
fn a_call_is_evaluated_within_bounds_under_the_largest_policy() {
    let policy = searching((0..SEARCHES_MAX).map(|n| format!("x{n}$")));
    assert_eq!(check(&policy, PolicyNames { tools: &[], profiles: &[] }), Ok(()));
    let arguments = json!({ "name": "a".repeat(SEARCHED_BYTES) });
    let mut evaluation = Evaluation::default();
    assert_eq!(evaluation.rule(&policy, "create_tag", Access::ReadWrite, &arguments), None);
    assert_eq!(evaluation.searches, SEARCHES_MAX);

    // In a stored policy with too many patterns, the first rule beyond the bound is not searched and denies.
    let before = searching((0..100).map(|n| format!("x{n}$")));
    let mut evaluation = Evaluation::default();
    let found = evaluation.rule(&before, "create_tag", Access::ReadWrite, &arguments);
    assert_eq!((found.is_some(), evaluation.searches), (true, SEARCHES_MAX));
}

#[test]
fn a_text_that_is_not_searched_gets_the_safe_result() {
    let long = json!({ "name": "a".repeat(SEARCHED_BYTES + 1) });
    let large = r"^\p{L}{1,40}$";
    let on = |pattern: &str, ruling: Ruling| Rule {
        arguments: when("name", Test::Matches(pattern.into())).rules.remove(0).arguments,
        ..Rule::new(pattern, ruling)
    };
    let ask = || Ruling::Ask(Approver::default());
    for (pattern, arguments) in [("b", &long), (large, &json!({ "name": "abc" }))] {
        let ruling_of = |rules: Vec<Rule>| {
            let policy = Policy { rules };
            rule(&policy, "create_tag", Access::ReadWrite, arguments).map(|rule| rule.ruling.clone())
        };
        assert_eq!(ruling_of(vec![on(pattern, Ruling::Deny)]), Some(Ruling::Deny), "{pattern}");
        assert_eq!(ruling_of(vec![on(pattern, ask())]), Some(ask()), "{pattern}");
        assert_eq!(ruling_of(vec![on(pattern, Ruling::Allow)]), None, "{pattern}");
        // An unknown match does not hide a later stricter rule. A later less strict rule does not hide the match.
        assert_eq!(ruling_of(vec![on(pattern, ask()), Rule::new("all", Ruling::Allow)]), Some(ask()), "{pattern}");
        assert_eq!(
            ruling_of(vec![on(pattern, ask()), Rule::new("all", Ruling::Deny)]),
            Some(Ruling::Deny),
            "{pattern}"
        );
        assert_eq!(ruling_of(vec![on(pattern, Ruling::Allow), Rule::new("all", ask())]), Some(ask()), "{pattern}");
        let one = |roles: &[Role], not_by_requester| Ruling::Ask(Approver { roles: roles.to_vec(), not_by_requester });
        for (first, second, both) in [
            (ask(), one(&[Role::Admin], true), one(&[Role::Admin], true)),
            (one(&[Role::Admin], false), one(&[], true), one(&[Role::Admin], true)),
            (one(&[Role::Member, Role::Admin], true), one(&[Role::Admin], false), one(&[Role::Admin], true)),
            (one(&[Role::Admin], true), ask(), one(&[Role::Admin], true)),
        ] {
            assert_eq!(ruling_of(vec![on(pattern, first), Rule::new("known", second)]), Some(both), "{pattern}");
        }
        // A false condition decides, even if another condition is unknown.
        let mut other = on(pattern, Ruling::Deny);
        other.arguments.push(Condition { path: "other".into(), test: Test::Equals(json!(1)) });
        assert_eq!(ruling_of(vec![other]), None, "{pattern}");
    }
    let whole = json!({ "name": "a".repeat(SEARCHED_BYTES) });
    assert!(!matches(&when("name", Test::Matches("b".into())), &whole));
}
