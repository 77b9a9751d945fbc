//! Validation of a policy before it is stored.

use folio_resources::policy::{Condition, POLICY_BYTES, Policy, RULES_MAX, Rule, Ruling, Test};
use folio_types::access::Role;
use folio_types::{Error, Reason, Result};
use serde_json::Value;

use super::{SEARCHES_MAX, pattern};
use crate::path::Path;
use crate::rules::excerpt;

/// Maximum length of each list of a rule: tools, users, profiles, conditions.
// proto: PolicyRule "at most {} elements"
const LIST_MAX: usize = 100;

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
