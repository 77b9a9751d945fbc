//! The approval policy of an organization: an ordered list of rules about tool calls. The first matching rule applies.
//! If no rule matches, calls of tools that write wait for approval unless the request approves them.
//!
//! A rule overrides the request (`auto_approve`, `auto_approved_tools`).

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use folio_types::UserId;
use folio_types::access::Role;

/// Maximum rules of a policy.
// proto: Policy.rules "at most {},"
pub const RULES_MAX: usize = 100;
/// Maximum size of a policy as JSON, in bytes. Each turn stores the rules that may apply to it.
// proto: Policy.rules "{} KiB in total"
pub const POLICY_BYTES: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Policy {
    /// The first matching rule applies.
    pub rules: Vec<Rule>,
}

/// A rule. An empty list matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Used in refusals and in the audit log.
    pub name: String,
    /// Empty: every tool that writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Conditions on the arguments, all of which must be true.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Condition>,
    /// Users who started the turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserId>,
    /// Roles of the user who started the turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    pub ruling: Ruling,
}

impl Rule {
    /// Creates a rule that matches every call of a tool that writes.
    pub fn new(name: &str, ruling: Ruling) -> Self {
        Self {
            name: name.to_owned(),
            tools: Vec::new(),
            arguments: Vec::new(),
            users: Vec::new(),
            roles: Vec::new(),
            profiles: Vec::new(),
            ruling,
        }
    }
}

/// A condition on the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Path in the arguments: `a.b[0].c`.
    pub path: String,
    /// Test of the value at the path. Except for [`Test::Absent`], a path that does not exist never matches.
    pub test: Test,
}

/// Test of the value at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    Equals(Value),
    /// The value equals one of these values.
    In(Vec<Value>),
    /// The value is a text in which this regular expression matches.
    Matches(String),
    /// The value is a number less than this one.
    Less(Number),
    /// The value is a number greater than this one.
    Greater(Number),
    /// The value is missing or null.
    Absent,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// The call does not run; the model gets an error.
    Deny,
    /// The call waits for approval, regardless of the request.
    Ask(Approver),
    /// The call runs without approval.
    Allow,
}

/// Users that may approve a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Approver {
    /// Minimum roles that may approve, regardless of the thread's owner. Empty: every user with write access to the
    /// thread.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// Excludes the requester of the turn, also with tokens that the requester created for other users.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_by_requester: bool,
}

/// Reason why a call waits, and its approvers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ApprovalRequirement {
    /// Name of the rule. Empty: no rule matches, and calls that write wait.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rule: String,
    #[serde(default)]
    pub approver: Approver,
}

impl Approver {
    /// Returns true if the role is at least as high as one of the listed roles.
    pub fn names(&self, role: Role) -> bool {
        self.roles.iter().any(|named| role >= *named)
    }

    /// Returns the approvers that satisfy both requirements.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let least = |approver: &Self| approver.roles.iter().min().copied();
        Self {
            roles: least(self).max(least(other)).into_iter().collect(),
            not_by_requester: self.not_by_requester || other.not_by_requester,
        }
    }

    /// Returns true if a user with this role and with access to the thread may approve the call. `requester` is true if
    /// the user, or the creator of its token, started the turn.
    pub fn lets(&self, role: Role, requester: bool) -> bool {
        role > Role::Viewer && !(self.not_by_requester && requester) && (self.roles.is_empty() || self.names(role))
    }
}

impl Policy {
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the rules that may apply to a turn, without the conditions that the turn satisfies. `parents`: the profiles of the
    /// turns above a child turn. The rules for them apply as well, unless they allow calls.
    pub fn of_turn(&self, user: &UserId, role: Role, profile: &str, parents: &[String]) -> Self {
        let is_of_profile = |rule: &Rule| {
            let names = |of: &str| rule.profiles.iter().any(|name| name == of);
            let restricts = rule.ruling != Ruling::Allow;
            rule.profiles.is_empty() || names(profile) || (restricts && parents.iter().any(|parent| names(parent)))
        };
        let concerns = |rule: &&Rule| {
            (rule.users.is_empty() || rule.users.contains(user))
                && (rule.roles.is_empty() || rule.roles.contains(&role))
                && is_of_profile(rule)
        };
        let plain = |rule: &Rule| Rule { users: Vec::new(), roles: Vec::new(), profiles: Vec::new(), ..rule.clone() };
        Self { rules: self.rules.iter().filter(concerns).map(plain).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approver(roles: &[Role], not_by_requester: bool) -> Approver {
        Approver { roles: roles.to_vec(), not_by_requester }
    }

    #[test]
    fn approvers_have_write_access_and_fulfil_the_rule() {
        use Role::{Admin, Member, Viewer};
        for (approver, role, requester, lets) in [
            (approver(&[], false), Viewer, false, false),
            (approver(&[], false), Member, false, true),
            (approver(&[], false), Member, true, true),
            (approver(&[], true), Member, true, false),
            (approver(&[], true), Member, false, true),
            (approver(&[Viewer], false), Viewer, false, false),
            (approver(&[Member], false), Admin, false, true),
            (approver(&[Admin], false), Member, false, false),
            (approver(&[Admin], true), Admin, true, false),
            (approver(&[Admin, Member], true), Member, false, true),
        ] {
            assert_eq!(approver.lets(role, requester), lets, "{approver:?} {role:?} {requester}");
        }
    }

    #[test]
    fn combined_approvers_fulfil_both_rules() {
        use Role::{Admin, Member};
        for (one, other, both) in [
            (approver(&[], false), approver(&[], false), approver(&[], false)),
            (approver(&[Member, Admin], false), approver(&[], true), approver(&[Member], true)),
            (approver(&[Member], true), approver(&[Admin], true), approver(&[Admin], true)),
        ] {
            assert_eq!((one.and(&other), other.and(&one)), (both.clone(), both));
        }
    }

    #[test]
    fn the_rules_of_a_turn_are_those_for_its_user_role_and_profile() {
        let (ann, bob) = (UserId::derive(&["ann"]), UserId::derive(&["bob"]));
        let rule = |users: &[&UserId], roles: &[Role], profiles: &[&str]| Rule {
            name: format!("{users:?} {roles:?} {profiles:?}"),
            tools: vec!["create_tag".into()],
            arguments: vec![Condition { path: "name".into(), test: Test::Absent }],
            users: users.iter().map(|&user| user.clone()).collect(),
            roles: roles.to_vec(),
            profiles: profiles.iter().map(|&profile| profile.to_owned()).collect(),
            ruling: Ruling::Deny,
        };
        for (rule, applies) in [
            (rule(&[], &[], &[]), true),
            (rule(&[&bob, &ann], &[Role::Admin, Role::Member], &["library", "document"]), true),
            (rule(&[&bob], &[], &[]), false),
            (rule(&[], &[Role::Admin], &[]), false),
            (rule(&[], &[], &["library"]), false),
            (rule(&[&bob], &[Role::Member], &["document"]), false),
            (rule(&[&ann], &[Role::Admin], &["document"]), false),
            (rule(&[&ann], &[Role::Member], &["library"]), false),
        ] {
            let plain = Rule { users: Vec::new(), roles: Vec::new(), profiles: Vec::new(), ..rule.clone() };
            let policy = Policy { rules: vec![rule] };
            let expected = Policy { rules: if applies { vec![plain] } else { Vec::new() } };
            assert_eq!(policy.of_turn(&ann, Role::Member, "document", &[]), expected);
        }
    }

    #[test]
    fn a_child_turn_has_the_restrictions_of_the_turns_above_and_not_their_permissions() {
        let ann = UserId::derive(&["ann"]);
        let parents = ["coordinator".to_owned()];
        for (profiles, ruling, applies) in [
            ("coordinator", Ruling::Deny, true),
            ("coordinator", Ruling::Ask(Approver::default()), true),
            ("coordinator", Ruling::Allow, false),
            ("document", Ruling::Allow, true),
            ("extraction", Ruling::Deny, false),
        ] {
            let rule = Rule { profiles: vec![profiles.to_owned()], ..Rule::new("rule", ruling) };
            let found = Policy { rules: vec![rule] }.of_turn(&ann, Role::Member, "document", &parents);
            assert_eq!(found.rules.len(), usize::from(applies), "{profiles}");
        }
    }
}
