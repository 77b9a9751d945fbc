//! The approval policy of an organization: an ordered list of rules about calls of tools. The first rule that fits a call says what
//! becomes of it; where none does, calls of tools that write wait unless the request lets them run.
//!
//! What a rule says is stronger than what a request says (`auto_approve`, `auto_approved_tools`).

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::access::Role;
use crate::ids::UserId;

/// Rules of a policy.
pub const RULES_MAX: usize = 100;
/// Bytes of a policy as JSON: each turn remembers those of its rules that may concern it.
pub const POLICY_BYTES: usize = 16 * 1024;

/// Rules, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Policy {
    /// The rules; the first that fits counts.
    pub rules: Vec<Rule>,
}

/// One rule. What is empty fits everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// What it is called where it says no, and in the audit log.
    pub name: String,
    /// Tools; empty: those that write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// What the call's arguments must be like, all of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<Condition>,
    /// Who asked, that is, began the turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<UserId>,
    /// The role of who asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// Profiles.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// What becomes of a call that fits.
    pub ruling: Ruling,
}

/// A condition on the arguments of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Where in the arguments: `a.b[0].c`.
    pub path: String,
    /// What stands there. But for [`Test::Absent`], a path that leads nowhere fits nothing.
    pub test: Test,
}

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// This value.
    Equals(Value),
    /// One of these values.
    In(Vec<Value>),
    /// A text in which this regular expression finds something.
    Matches(String),
    /// A number below this one.
    Less(Number),
    /// A number above this one.
    Greater(Number),
    /// Nothing, or null.
    Absent,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// It does not run; the model is told so.
    Deny,
    /// It waits, whatever the request says.
    Ask(Approver),
    /// It runs at once.
    Allow,
}

/// Who may let a call run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Approver {
    /// Roles, any of which (or a higher one) will do, whoever's thread it is; none: whoever may see the thread and more than read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<Role>,
    /// Somebody else than who asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_by_asker: bool,
}

/// By what a call waits, and who may let it run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Waits {
    /// The name of the rule; empty: none fits, and calls that write wait.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rule: String,
    /// Who may let it run.
    #[serde(default)]
    pub approver: Approver,
}

impl Approver {
    /// Whether a role is one that is named, or a higher one.
    pub fn names(&self, role: Role) -> bool {
        self.roles.iter().any(|named| role >= *named)
    }

    /// Who both this and another would let.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let least = |approver: &Self| approver.roles.iter().min().copied();
        Self {
            roles: least(self).max(least(other)).into_iter().collect(),
            not_by_asker: self.not_by_asker || other.not_by_asker,
        }
    }

    /// Whether somebody of this role, who sees the thread, may let the call run; `asker`: it is who asked.
    pub fn lets(&self, role: Role, asker: bool) -> bool {
        role > Role::Viewer && !(self.not_by_asker && asker) && (self.roles.is_empty() || self.names(role))
    }
}

impl Policy {
    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules that may concern a turn, without what is known to fit.
    pub fn of_turn(&self, user: &UserId, role: Role, profile: &str) -> Self {
        let concerns = |rule: &&Rule| {
            (rule.users.is_empty() || rule.users.contains(user))
                && (rule.roles.is_empty() || rule.roles.contains(&role))
                && (rule.profiles.is_empty() || rule.profiles.iter().any(|name| name == profile))
        };
        let plain = |rule: &Rule| Rule { users: Vec::new(), roles: Vec::new(), profiles: Vec::new(), ..rule.clone() };
        Self { rules: self.rules.iter().filter(concerns).map(plain).collect() }
    }
}
