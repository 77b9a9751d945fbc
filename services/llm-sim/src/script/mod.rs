//! Scripts: rules that say what is answered to what. Written as YAML (JSON is YAML too); see `README.md` of this crate for
//! the whole form with examples.
//!
//! Rules are tried in order; the first whose conditions all hold answers. A rule has one `answer`, or `rounds`: one answer
//! for each model call since the last user message, so that a whole tool sequence stands in one place.

mod condition;
mod parse;
mod play;
mod template;

use serde::Deserialize;

use crate::answer::Answer;
use crate::faults::{Fault, FaultPlan};
use crate::pace::{Latency, Pacing};

pub use condition::{Condition, FormatMatch, TextMatch, ToolMatch};
pub use parse::ScriptError;
pub use play::Player;

/// A script.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    /// The models that the endpoint lists; where empty `scripted`.
    pub models: Vec<String>,
    /// Pacing of answers whose rule names none.
    pub pacing: Option<Pacing>,
    /// Latency of answers whose rule names none.
    pub latency: Option<Latency>,
    /// Faults to begin with.
    pub faults: FaultPlan,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// A rule: when, and what is answered.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// A name, for the record and for faults; where absent `rule N`.
    pub name: Option<String>,
    /// What must hold; where absent it always holds.
    pub when: Condition,
    /// Answers at most so many times.
    pub times: Option<u64>,
    /// The answer.
    pub answer: Option<Answer>,
    /// One answer for each model call since the last user message; holds only while there is one for the round.
    pub rounds: Vec<Answer>,
    /// A fault within, or instead of, the answer.
    pub fault: Option<Fault>,
    /// Pacing of this rule's answers.
    pub pacing: Option<Pacing>,
    /// Latency of this rule's answers.
    pub latency: Option<Latency>,
}

impl Script {
    /// Reads a script; the error says where it is wrong.
    pub fn parse(yaml: &str) -> Result<Self, ScriptError> {
        parse::parse(yaml)
    }

    /// A script that answers everything with this text.
    pub fn always(text: impl Into<String>) -> Self {
        Self::of(vec![Rule { answer: Some(Answer::text(text)), ..Rule::default() }])
    }

    /// A script of these rules.
    pub fn of(rules: Vec<Rule>) -> Self {
        Self { rules, ..Self::default() }
    }
}
