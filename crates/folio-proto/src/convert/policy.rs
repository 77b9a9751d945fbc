//! Conversions of policies.

use folio_resources::Organization;
use folio_resources::policy::{ApprovalRequirement, Approver, Condition, POLICY_BYTES, Policy, Rule, Ruling, Test};
use folio_types::access::Role;
use folio_types::{Error, Result};
use serde_json::{Number, Value};

use crate::{fields, json, v1};
use v1::policy_condition as condition;
use v1::policy_rule as rule;

impl From<&Organization> for v1::Policy {
    fn from(organization: &Organization) -> Self {
        Self {
            rules: organization.policy.rules.iter().map(Into::into).collect(),
            approval_ttl_seconds: organization.approval_ttl_seconds.unwrap_or(0),
        }
    }
}

fn role_values(roles: &[Role]) -> Vec<i32> {
    roles.iter().map(|role| v1::Role::from(*role).into()).collect()
}

impl From<&Rule> for v1::PolicyRule {
    fn from(rule: &Rule) -> Self {
        let ruling = match &rule.ruling {
            Ruling::Deny => rule::Ruling::Deny(v1::Deny {}),
            Ruling::Ask(approver) => rule::Ruling::Ask(v1::Ask {
                roles: role_values(&approver.roles),
                not_by_requester: approver.not_by_requester,
            }),
            Ruling::Allow => rule::Ruling::Allow(v1::Allow {}),
        };
        Self {
            name: rule.name.clone(),
            tools: rule.tools.clone(),
            arguments: rule.arguments.iter().map(Into::into).collect(),
            user_ids: rule.users.iter().map(ToString::to_string).collect(),
            roles: role_values(&rule.roles),
            profiles: rule.profiles.clone(),
            ruling: Some(ruling),
        }
    }
}

impl From<&ApprovalRequirement> for v1::ApprovalRequirement {
    fn from(requirement: &ApprovalRequirement) -> Self {
        let Approver { roles, not_by_requester } = &requirement.approver;
        Self { rule: requirement.rule.clone(), roles: role_values(roles), not_by_requester: *not_by_requester }
    }
}

impl TryFrom<v1::ApprovalRequirement> for ApprovalRequirement {
    type Error = Error;
    fn try_from(requirement: v1::ApprovalRequirement) -> Result<Self> {
        let approver = Approver {
            roles: read_roles("approval_requirement.roles", &requirement.roles)?,
            not_by_requester: requirement.not_by_requester,
        };
        Ok(Self { rule: requirement.rule, approver })
    }
}

impl From<&Condition> for v1::PolicyCondition {
    fn from(condition: &Condition) -> Self {
        let number = |number: &Number| number.as_f64().unwrap_or_default();
        let test = match &condition.test {
            Test::Equals(value) => condition::Test::EqualsJson(json::text(value)),
            Test::In(values) => condition::Test::InJson(json::text(&Value::Array(values.clone()))),
            Test::Matches(pattern) => condition::Test::Matches(pattern.clone()),
            Test::Less(bound) => condition::Test::Less(number(bound)),
            Test::Greater(bound) => condition::Test::Greater(number(bound)),
            Test::Absent => condition::Test::Absent(v1::Absent {}),
        };
        Self { path: condition.path.clone(), test: Some(test) }
    }
}

impl v1::Policy {
    /// Parses the rules and checks each field. `folio_tools::policy::check` checks the rules against the tools and
    /// profiles. Errors: `INVALID_FIELD`, `INVALID_ID` or `TOO_LARGE`, with the field.
    pub fn read(&self) -> Result<Policy> {
        let rules = self.rules.iter().enumerate();
        let rules = rules.map(|(index, rule)| read_rule(&format!("policy.rules[{index}]"), rule));
        Ok(Policy { rules: rules.collect::<Result<_>>()? })
    }
}

fn read_rule(field: &str, rule: &v1::PolicyRule) -> Result<Rule> {
    let users = rule.user_ids.iter().map(|id| fields::id(&format!("{field}.user_ids"), id)).collect::<Result<_>>()?;
    let arguments = rule.arguments.iter().enumerate();
    let arguments =
        arguments.map(|(index, condition)| read_condition(&format!("{field}.arguments[{index}]"), condition));
    let ruling = match fields::required(&format!("{field}.ruling"), rule.ruling.as_ref())? {
        rule::Ruling::Deny(v1::Deny {}) => Ruling::Deny,
        rule::Ruling::Ask(ask) => Ruling::Ask(Approver {
            roles: read_roles(&format!("{field}.ask.roles"), &ask.roles)?,
            not_by_requester: ask.not_by_requester,
        }),
        rule::Ruling::Allow(v1::Allow {}) => Ruling::Allow,
    };
    Ok(Rule {
        name: rule.name.clone(),
        tools: rule.tools.clone(),
        arguments: arguments.collect::<Result<_>>()?,
        users,
        roles: read_roles(&format!("{field}.roles"), &rule.roles)?,
        profiles: rule.profiles.clone(),
        ruling,
    })
}

fn read_roles(field: &str, roles: &[i32]) -> Result<Vec<Role>> {
    let read_role = |number: &i32| {
        let role = fields::choice::<v1::Role>(field, *number)?.specified();
        role.ok_or_else(|| Error::invalid_field(field, "must not contain ROLE_UNSPECIFIED"))
    };
    roles.iter().map(read_role).collect()
}

fn read_condition(field: &str, condition: &v1::PolicyCondition) -> Result<Condition> {
    let number = |name: &str, number: f64| {
        let is_integer = number.fract() == 0.0 && number.abs() < 9_007_199_254_740_992.0;
        #[expect(clippy::cast_possible_truncation, reason = "the number is an integer of at most 53 bits")]
        let exact = if is_integer { Some(Number::from(number as i64)) } else { Number::from_f64(number) };
        exact.ok_or_else(|| Error::invalid_field(format!("{field}.{name}"), "is not a finite number"))
    };
    let test = match fields::required(&format!("{field}.test"), condition.test.as_ref())? {
        condition::Test::EqualsJson(text) => {
            Test::Equals(json::parse(&format!("{field}.equals_json"), text, POLICY_BYTES)?)
        }
        condition::Test::InJson(text) => {
            let name = format!("{field}.in_json");
            match json::parse(&name, text, POLICY_BYTES)? {
                Value::Array(values) => Test::In(values),
                _ => return Err(Error::invalid_field(name, "must be a JSON array")),
            }
        }
        condition::Test::Matches(pattern) => Test::Matches(pattern.clone()),
        condition::Test::Less(bound) => Test::Less(number("less", *bound)?),
        condition::Test::Greater(bound) => Test::Greater(number("greater", *bound)?),
        condition::Test::Absent(v1::Absent {}) => Test::Absent,
    };
    Ok(Condition { path: condition.path.clone(), test })
}
