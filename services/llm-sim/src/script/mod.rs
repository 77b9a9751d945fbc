//! Scripts: rules that map requests to responses. The format is YAML, of which JSON is a subset; `README.md` of this
//! crate documents it with examples.
//!
//! The first rule applies whose conditions all hold and whose templates all have a value. A rule has one `answer`, or
//! `rounds`: one answer per model call since the last user message, so that one rule describes a whole sequence of tool
//! calls.

mod condition;
mod parse;
mod play;
mod template;

use serde::Deserialize;

use crate::answer::Answer;
use crate::faults::{Fault, FaultPlan};

pub use condition::{Condition, Contains, FormatMatch, Prefix, TextMatch};
pub use parse::ScriptError;
pub(crate) use play::Decision;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    /// Models that the endpoint lists. Empty: `scripted`.
    pub models: Vec<String>,
    /// Initial faults.
    pub faults: FaultPlan,
    pub rules: Vec<Rule>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// Conditions. Default: always holds.
    pub when: Condition,
    pub answer: Option<Answer>,
    /// One response per model call since the last user message. The rule matches only if it has a response for the
    /// round.
    pub rounds: Vec<Answer>,
    /// A fault within the response or instead of it.
    pub fault: Option<Fault>,
}

impl Script {
    /// Parses a script. The error contains the position.
    pub fn parse(yaml: &str) -> Result<Self, ScriptError> {
        parse::parse(yaml)
    }

    /// Creates a script with this response to everything.
    pub fn always(text: impl Into<String>) -> Self {
        Self::of(vec![Rule { answer: Some(Answer::text(text)), ..Rule::default() }])
    }

    pub fn of(rules: Vec<Rule>) -> Self {
        Self { rules, ..Self::default() }
    }
}
