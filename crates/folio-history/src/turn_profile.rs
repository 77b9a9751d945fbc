//! The profile of a turn, as the acceptance of the turn records it.

use std::sync::Arc;
use std::time::Duration;

use folio_types::profile::Subject;
use folio_types::{BudgetPart, BudgetRoot, DocumentId, TurnId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::{Access, TurnNode, TurnOptions};

/// The type of the answer that ends a turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum AnswerType {
    #[default]
    Text,
    /// JSON that matches this JSON Schema (draft 7).
    Json { schema: Value },
}

impl AnswerType {
    /// None: the answer is text.
    pub fn schema(&self) -> Option<&Value> {
        match self {
            Self::Text => None,
            Self::Json { schema } => Some(schema),
        }
    }

    fn is_text(&self) -> bool {
        *self == Self::Text
    }
}

/// The values of a profile that decide about a turn, as of its acceptance. Every owner of the turn uses these values, even
/// if its binary has another version of the profile. Instructions and the descriptions of tools are those of the binary. The
/// turns that a process accepts share the lists of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnProfile {
    pub name: String,
    /// Version of the profile, from 1.
    pub version: u32,
    /// Tools that the turn may call, in the order of the profile.
    pub tools: Arc<[String]>,
    /// The part of `tools` whose calls wait for a decision, unless the policy or the options permit them in advance.
    pub waiting_tools: Arc<[String]>,
    /// The part of `waiting_tools` whose calls only the policy, and not the options, permits in advance.
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    pub policy_tools: Arc<[String]>,
    /// Resource that the turn is about.
    pub subject: Subject,
    /// Maximum seconds that the turn runs, without the time that it waits for decisions. None: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_seconds: Option<u64>,
    /// Credit that the turn may use, in credit units. None: no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
    #[serde(default, skip_serializing_if = "AnswerType::is_text")]
    pub answer: AnswerType,
    /// The nodes of the turn; the first one starts it. Empty: the profile has no graph.
    #[serde(default = "crate::graph::no_graph", skip_serializing_if = "<[TurnNode]>::is_empty")]
    pub graph: Arc<[TurnNode]>,
}

impl TurnOptions {
    /// Returns the tools that the turn may call. None: unknown (an old entry), every tool of the profile.
    pub fn tools(&self) -> Option<&[String]> {
        self.profile.as_ref().map(|profile| &*profile.tools)
    }

    /// Returns the maximum time that the turn runs. None: no limit.
    pub fn running_time(&self) -> Option<Duration> {
        self.profile.as_ref()?.running_seconds.map(Duration::from_secs)
    }

    /// Returns the parts of credit budgets that pay for the calls of a turn. Each of them must cover a call. `of_thread`: the parts
    /// of the thread ([`budget_parts`](crate::thread::ThreadHeader::budget_parts)). The last one is that of the turn itself, if the
    /// request or the profile limits its credit.
    pub fn budget_parts<'a>(
        &self,
        of_thread: impl IntoIterator<Item = &'a BudgetPart>,
        turn: &TurnId,
    ) -> Vec<BudgetPart> {
        let of_profile = self.profile.as_ref().and_then(|profile| profile.credit_budget);
        let credits = [self.credit_budget, of_profile].into_iter().flatten().min();
        let own = credits.map(|credits| BudgetPart::whole(BudgetRoot::Turn(turn.clone()), credits));
        of_thread.into_iter().cloned().chain(own).collect()
    }

    /// Returns the JSON Schema of the answer. None: the answer is text.
    pub fn answer_schema(&self) -> Option<&Value> {
        self.profile.as_ref()?.answer.schema()
    }

    /// Returns the subject of the turn. `documents`: the documents of its thread, of which an old entry is about the first one.
    pub fn subject(&self, documents: &[DocumentId]) -> Option<Subject> {
        let recorded = self.profile.as_ref().map(|profile| profile.subject.clone());
        recorded.or_else(|| Subject::first_document(documents))
    }

    /// Returns true if a call waits for a decision when neither the policy nor an option of the turn permits it. A tool that
    /// the recorded profile does not name waits if it writes.
    pub fn waits_by_default(&self, tool: &str, access: Access) -> bool {
        let is_named = |names: &[String]| names.iter().any(|name| name == tool);
        match &self.profile {
            Some(profile) if is_named(&profile.tools) => is_named(&profile.waiting_tools),
            _ => access == Access::ReadWrite,
        }
    }

    /// Returns true if an option of the turn permits the calls of a tool for which no rule of the policy matches.
    pub fn approves(&self, tool: &str) -> bool {
        let is_named = |names: &[String]| names.iter().any(|name| name == tool);
        let needs_rule = self.profile.as_ref().is_some_and(|profile| is_named(&profile.policy_tools));
        !needs_rule && (self.auto_approve || is_named(&self.auto_approved_tools))
    }

    /// Returns true if a call waits for a decision when no rule of the policy matches it.
    pub fn waits(&self, tool: &str, access: Access) -> bool {
        self.waits_by_default(tool, access) && !self.approves(tool)
    }
}

#[cfg(test)]
mod tests {
    use folio_types::{JobId, ThreadId};

    use super::*;

    #[test]
    fn an_old_entry_is_about_the_first_document_of_its_thread() {
        let documents = ["a", "b"].map(|name| DocumentId::derive(&[name]));
        let old = TurnOptions::default();
        assert_eq!(old.subject(&documents), Some(Subject::Document(documents[0].clone())));
        assert_eq!(old.subject(&[]), None);
    }

    fn profile(credit_budget: Option<u64>) -> TurnProfile {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        TurnProfile {
            name: "test".to_owned(),
            version: 1,
            tools: names(&["read", "write", "waiting", "policy"]),
            waiting_tools: names(&["waiting", "policy"]),
            policy_tools: names(&["policy"]),
            subject: Subject::Document(DocumentId::derive(&["document"])),
            running_seconds: None,
            credit_budget,
            answer: AnswerType::Text,
            graph: crate::graph::no_graph(),
        }
    }

    #[test]
    fn no_option_of_a_turn_permits_a_tool_that_needs_a_rule() {
        let profile = Some(profile(None));
        let all = TurnOptions { auto_approve: true, profile: profile.clone(), ..TurnOptions::default() };
        let named = ["waiting", "policy"].map(str::to_owned).to_vec();
        let named = TurnOptions { auto_approved_tools: named, profile, ..TurnOptions::default() };
        for options in [all, named] {
            assert_eq!((options.approves("waiting"), options.approves("policy")), (true, false));
            assert!(options.waits_by_default("policy", Access::ReadWrite));
            let waits = ["waiting", "policy", "read"].map(|tool| options.waits(tool, Access::ReadWrite));
            assert_eq!(waits, [false, true, false]);
        }
    }

    #[test]
    fn the_smaller_budget_of_request_and_profile_and_that_of_the_thread_pay_for_a_turn() {
        let turn = TurnId::new(ThreadId::derive(&["t"]), 2);
        let of_item = BudgetPart::whole(BudgetRoot::Job(JobId::derive(&["j"])), 100).child(1);
        for (of_request, of_profile, credits) in
            [(None, None, None), (Some(5), None, Some(5)), (None, Some(7), Some(7)), (Some(5), Some(7), Some(5))]
        {
            let profile = Some(profile(of_profile));
            let options = TurnOptions { profile, credit_budget: of_request, ..TurnOptions::default() };
            let own = credits.map(|credits| BudgetPart::whole(BudgetRoot::Turn(turn.clone()), credits));
            assert_eq!(options.budget_parts(None, &turn), own.iter().cloned().collect::<Vec<_>>());
            let both: Vec<_> = [of_item.clone()].into_iter().chain(own).collect();
            assert_eq!(options.budget_parts([&of_item], &turn), both);
        }
    }

    #[test]
    fn a_call_waits_as_recorded_and_else_if_it_writes() {
        let recorded = TurnOptions { profile: Some(profile(None)), ..TurnOptions::default() };
        for (options, tool, access, waits) in [
            (&recorded, "read", Access::ReadOnly, false),
            (&recorded, "write", Access::ReadWrite, false),
            (&recorded, "waiting", Access::ReadWrite, true),
            (&recorded, "added later", Access::ReadWrite, true),
            (&recorded, "added later", Access::ReadOnly, false),
            (&TurnOptions::default(), "write", Access::ReadWrite, true),
            (&TurnOptions::default(), "read", Access::ReadOnly, false),
        ] {
            assert_eq!(options.waits_by_default(tool, access), waits, "{tool} {access:?}");
        }
    }
}
