//! Evaluation of the approval policy: the rule that matches a call, and the users that may approve the call.

mod check;
mod pattern;

use std::borrow::Cow;
use std::cmp::Ordering;

use folio_history::journal::Access;
use folio_resources::policy::{Approver, Condition, Policy, Rule, Ruling, Test};
use folio_types::access::Role;
use folio_types::op::Expected;
use folio_types::{Code, Error, Principal, Reason, Result, UserId};
use serde_json::{Number, Value};

use crate::path::Path;

pub use check::{PolicyNames, check};

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

#[cfg(test)]
mod tests;
