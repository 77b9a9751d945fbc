//! Evaluation of the approval policy: the rule that matches a call, and the users that may approve the call.

mod pattern;

use std::borrow::Cow;
use std::cmp::Ordering;

use folio_history::journal::Access;
use folio_resources::policy::{Approver, Condition, POLICY_BYTES, Policy, RULES_MAX, Rule, Ruling, Test};
use folio_types::access::Role;
use folio_types::op::Expected;
use folio_types::{Code, Error, Principal, Reason, Result, UserId};
use serde_json::{Number, Value};

use crate::path::Path;
use crate::rules::excerpt;

/// Maximum length of each list of a rule: tools, users, profiles, conditions.
// proto: PolicyRule "at most {} elements"
const LIST_MAX: usize = 100;
/// Maximum number of conditions with a pattern per policy, and of pattern searches per call.
// proto: Policy.rules "at most {} conditions"
// proto: PolicyCondition.matches "after {} searched texts"
const SEARCHES_MAX: usize = 20;
/// Maximum length of a text that is searched, in bytes.
// proto: PolicyCondition.matches "more than {} KiB"
const SEARCHED_BYTES: usize = 1024;

/// Returns the first rule that matches a call, None if no rule matches.
///
/// If a search bound prevents an exact answer for a rule, the stricter answer applies: a rule that denies matches, and
/// a rule that allows does not. A rule that requires approval matches; its approvers must also satisfy the next rule
/// that requires approval, and a later matching rule that denies wins.
pub fn rule<'a>(policy: &'a Policy, tool: &str, access: Access, arguments: &Value) -> Option<Cow<'a, Rule>> {
    Evaluation::default().rule(policy, tool, access, arguments)
}

/// Searches made for one call.
#[derive(Debug, Default)]
struct Evaluation {
    searches: usize,
}

impl Evaluation {
    fn rule<'a>(&mut self, policy: &'a Policy, tool: &str, access: Access, arguments: &Value) -> Option<Cow<'a, Rule>> {
        let named = |rule: &&Rule| match rule.tools.as_slice() {
            [] => access == Access::ReadWrite,
            tools => tools.iter().any(|name| name == tool),
        };
        let mut pending = None;
        for rule in policy.rules.iter().filter(named) {
            match (self.matches(rule, arguments), &rule.ruling) {
                (Some(false), _) | (None, Ruling::Allow) => {}
                (Some(true) | None, Ruling::Deny) => return Some(Cow::Borrowed(rule)),
                (Some(true), Ruling::Allow) => return pending.or(Some(Cow::Borrowed(rule))),
                (Some(true), Ruling::Ask(approver)) => return Some(require_both(pending, rule, approver)),
                (None, Ruling::Ask(approver)) => pending = Some(require_both(pending, rule, approver)),
            }
        }
        pending
    }

    /// Returns true if all conditions of a rule hold. None: unknown, because a bound was reached.
    fn matches(&mut self, rule: &Rule, arguments: &Value) -> Option<bool> {
        let mut all = Some(true);
        for condition in &rule.arguments {
            match self.holds(condition, arguments) {
                Some(true) => {}
                Some(false) => return Some(false),
                None => all = None,
            }
        }
        all
    }

    fn holds(&mut self, condition: &Condition, arguments: &Value) -> Option<bool> {
        let found = condition.path.parse::<Path>().ok().and_then(|path| path.get(arguments).ok());
        let Some(found) = found.filter(|value| !value.is_null()) else { return Some(condition.test == Test::Absent) };
        let ordered = |bound, wanted| found.as_number().is_some_and(|number| compared(number, bound) == Some(wanted));
        match &condition.test {
            Test::Equals(value) => Some(same(found, value)),
            Test::In(values) => Some(values.iter().any(|value| same(found, value))),
            Test::Matches(pattern) => found.as_str().map_or(Some(false), |text| self.matches_pattern(pattern, text)),
            Test::Less(bound) => Some(ordered(bound, Ordering::Less)),
            Test::Greater(bound) => Some(ordered(bound, Ordering::Greater)),
            Test::Absent => Some(false),
        }
    }

    /// Returns true if the pattern matches a part of the text. None if the text or the pattern exceeds a bound.
    fn matches_pattern(&mut self, pattern: &str, text: &str) -> Option<bool> {
        if text.len() > SEARCHED_BYTES || self.searches == SEARCHES_MAX {
            return None;
        }
        self.searches += 1;
        pattern::matches_pattern(pattern, text)
    }
}

/// Combines a rule that requires approval with an earlier one that may apply: approvers must satisfy both.
fn require_both<'a>(pending: Option<Cow<'a, Rule>>, rule: &'a Rule, approver: &Approver) -> Cow<'a, Rule> {
    let Some(mut combined) = pending else { return Cow::Borrowed(rule) };
    if let Ruling::Ask(earlier) = &combined.ruling {
        let both = earlier.and(approver);
        if both != earlier.and(earlier) {
            combined.to_mut().ruling = Ruling::Ask(both);
        }
    }
    combined
}

/// Returns why a planned call is not permitted, as the tool result. A call of `create_X` that revises an existing X is also
/// a call of `update_X`, so the rules of that tool apply, too. `satisfied`: the approvers that the call required; None: the
/// call ran without approval.
pub fn denied_revision(
    policy: &Policy,
    (tool, access, arguments): (&str, Access, &Value),
    expected: Expected,
    satisfied: Option<&Approver>,
) -> Option<String> {
    let (revision, revised) = revision_of(tool, expected)?;
    let rule = rule(policy, &revision, access, arguments)?;
    match &rule.ruling {
        Ruling::Allow => None,
        Ruling::Deny => Some(denial(&rule)),
        Ruling::Ask(required) if satisfied.is_some_and(|own| own.and(required) == own.and(own)) => None,
        Ruling::Ask(_) => Some(format!(
            "The name exists, so the call would change an existing {revised}. The organization's policy requires approval \
             of such changes (rule {:?}). Call {revision} instead.",
            rule.name
        )),
    }
}

/// Returns the tool whose rules apply, too, if a call of `create_X` revises an existing X, and X.
fn revision_of(tool: &str, expected: Expected) -> Option<(String, &str)> {
    let revised = tool.strip_prefix("create_").filter(|_| expected != Expected::Absent)?;
    Some((format!("update_{revised}"), revised))
}

/// Returns the tool result of a call that a rule denies.
pub fn denial(rule: &Rule) -> String {
    format!("The organization's policy denies this call (rule {:?}). Do not repeat it.", rule.name)
}

/// Checks that `by` may approve a call with these (possibly edited) arguments. `requester` started the turn.
/// Fails with `POLICY_DENIED` and the name of the rule.
pub fn may_approve(policy: &Policy, call: (&str, Access, &Value), by: &Principal, requester: &UserId) -> Result<()> {
    let (tool, access, arguments) = call;
    rule(policy, tool, access, arguments).map_or(Ok(()), |rule| may_approve_by(&rule, by, requester))
}

fn denied<T>(message: String) -> Result<T> {
    Err(Error::new(Code::PermissionDenied, Reason::PolicyDenied, message))
}

fn may_approve_by(rule: &Rule, by: &Principal, requester: &UserId) -> Result<()> {
    let name = &rule.name;
    match &rule.ruling {
        Ruling::Allow => Ok(()),
        Ruling::Deny => denied(format!("the organization's policy denies this call (rule {name:?})")),
        Ruling::Ask(approver) if approver.not_by_requester && by.user == *requester => {
            denied(format!("the user who started the turn may not approve this call (rule {name:?})"))
        }
        Ruling::Ask(approver) if approver.not_by_requester && by.may_be(requester) => denied(format!(
            "a token that the user who started the turn created may not approve this call (rule {name:?}); use a token \
             that another user created"
        )),
        Ruling::Ask(approver) if !approver.roles.is_empty() && !approver.names(by.role) => {
            let roles: Vec<_> = approver.roles.iter().map(|role| role.as_str()).collect();
            denied(format!("approving this call requires at least the role {} (rule {name:?})", roles.join(" or ")))
        }
        Ruling::Ask(_) => Ok(()),
    }
}

/// The rules that apply now to the calls of a turn that waited, in addition to the policy of the turn: a call runs only if
/// both permit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentRules {
    /// The rules of the current policy that may apply to the turn.
    pub policy: Policy,
    /// Current role of the user who started the turn. A removed member counts as a viewer.
    pub requester: Role,
}

impl CurrentRules {
    /// Checks as [`may_approve`], with the current rules.
    ///
    /// # Errors
    /// `POLICY_DENIED`, also if the requester may no longer start turns.
    pub fn may_approve(&self, call: (&str, Access, &Value), by: &Principal, requester: &UserId) -> Result<()> {
        if self.requester < Role::Member {
            return denied("the user who started the turn may not change anything any more".to_owned());
        }
        may_approve(&self.policy, call, by, requester)
    }

    /// Returns why a planned call that waited is no longer permitted, as the tool result. `by`: the approver with at most
    /// its current role; None: the call waited without a decision of its own.
    pub fn denial(
        &self,
        (tool, access, arguments): (&str, Access, &Value),
        expected: Expected,
        by: Option<&Principal>,
        requester: &UserId,
    ) -> Option<String> {
        if self.requester < Role::Member {
            return Some(
                "The user who started the turn may not change anything any more. Do not repeat the call.".into(),
            );
        }
        if by.is_some_and(|by| by.role < Role::Member) {
            return Some("The user who approved the call may not approve calls any more. Request it again.".into());
        }
        let revision = revision_of(tool, expected).map(|(revision, _)| revision);
        [Some(tool), revision.as_deref()].into_iter().flatten().find_map(|tool| {
            let rule = rule(&self.policy, tool, access, arguments)?;
            match &rule.ruling {
                Ruling::Allow => None,
                Ruling::Deny => Some(denial(&rule)),
                Ruling::Ask(_) if by.is_some_and(|by| may_approve_by(&rule, by, requester).is_ok()) => None,
                Ruling::Ask(_) => Some(format!(
                    "The organization's policy changed while the call waited, and now requires another approval (rule \
                     {:?}). Request the call again.",
                    rule.name
                )),
            }
        })
    }
}

/// Compares JSON values. 1 and 1.0 are equal.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compared(one, other) == Some(Ordering::Equal),
        _ => one == other,
    }
}

fn compared(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// Names that a policy may refer to.
#[derive(Debug, Clone, Copy)]
pub struct PolicyNames<'a> {
    pub tools: &'a [&'a str],
    pub profiles: &'a [&'a str],
}

/// Validates a policy before it is stored. A rule that can never match (an unknown tool or profile, a null value, a
/// role that starts no turns) is an error.
///
/// # Errors
/// `INVALID_FIELD`, `INVALID_PATH`, `TOO_LARGE`.
pub fn check(policy: &Policy, names: PolicyNames<'_>) -> Result<()> {
    if policy.rules.len() > RULES_MAX {
        return Err(Error::invalid_field("policy.rules", format!("has more than {RULES_MAX} rules")));
    }
    if folio_history::json_bytes(policy) > POLICY_BYTES {
        let message = format!("the policy has more than {POLICY_BYTES} bytes as JSON");
        return Err(Error::invalid(Reason::TooLarge, message));
    }
    policy
        .rules
        .iter()
        .enumerate()
        .try_for_each(|(at, rule)| check_rule(&format!("policy.rules[{at}]"), rule, names))?;
    check_patterns(policy)
}

/// Checks the bounds on all patterns of a policy together, because one call may search all of them.
fn check_patterns(policy: &Policy) -> Result<()> {
    let conditions = policy.rules.iter().flat_map(|rule| &rule.arguments);
    let patterns = conditions.filter_map(|condition| match &condition.test {
        Test::Matches(pattern) => Some(pattern.as_str()),
        _ => None,
    });
    let patterns: Vec<&str> = patterns.collect();
    let invalid = |problem: String| Err(Error::invalid_field("policy.rules", problem));
    if patterns.len() > SEARCHES_MAX {
        return invalid(format!("has {} conditions with matches; the maximum is {SEARCHES_MAX}", patterns.len()));
    }
    pattern::check_together(&patterns).or_else(invalid)
}

fn check_rule(field: &str, rule: &Rule, names: PolicyNames<'_>) -> Result<()> {
    folio_resources::fields::check_name(&format!("{field}.name"), &rule.name)?;
    let counts = [
        ("tools", rule.tools.len()),
        ("arguments", rule.arguments.len()),
        ("user_ids", rule.users.len()),
        ("profiles", rule.profiles.len()),
    ];
    for (name, count) in counts {
        if count > LIST_MAX {
            return Err(Error::invalid_field(format!("{field}.{name}"), format!("has more than {LIST_MAX} entries")));
        }
    }
    check_names(&format!("{field}.tools"), "tool", &rule.tools, names.tools)?;
    check_names(&format!("{field}.profiles"), "profile", &rule.profiles, names.profiles)?;
    for (at, condition) in rule.arguments.iter().enumerate() {
        check_condition(&format!("{field}.arguments[{at}]"), condition)?;
    }
    if rule.roles.contains(&Role::Viewer) {
        return Err(Error::invalid_field(format!("{field}.roles"), "viewer is not allowed: viewers start no turns"));
    }
    match &rule.ruling {
        Ruling::Ask(approver) if approver.roles.contains(&Role::Viewer) => {
            Err(Error::invalid_field(format!("{field}.ask.roles"), "viewer is not allowed: viewers approve no calls"))
        }
        _ => Ok(()),
    }
}

fn check_names(field: &str, kind: &str, names: &[String], known: &[&str]) -> Result<()> {
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(Error::invalid_field(field, format!("unknown {kind} {:?}", excerpt(unknown)))),
    }
}

fn check_condition(field: &str, condition: &Condition) -> Result<()> {
    condition.path.parse::<Path>().map_err(|error| {
        Error::invalid_field(format!("{field}.path"), error.message).with_reason(Reason::InvalidPath)
    })?;
    let invalid = |name: &str, problem: String| Err(Error::invalid_field(format!("{field}.{name}"), problem));
    let null = || "null never matches, because null means an omitted argument; use absent".to_owned();
    match &condition.test {
        Test::Equals(Value::Null) => invalid("equals_json", null()),
        Test::In(values) if values.is_empty() => invalid("in_json", "an empty list never matches".to_owned()),
        Test::In(values) if values.contains(&Value::Null) => invalid("in_json", null()),
        Test::Matches(pattern) => pattern::check(pattern).or_else(|problem| invalid("matches", problem)),
        Test::Equals(_) | Test::In(_) | Test::Less(_) | Test::Greater(_) | Test::Absent => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use folio_types::OrgId;
    use serde_json::json;

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
        let kept = Policy { rules }.of_turn(&us, Role::Member, "document");
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
            let one =
                |roles: &[Role], not_by_requester| Ruling::Ask(Approver { roles: roles.to_vec(), not_by_requester });
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
}
