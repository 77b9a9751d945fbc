//! Operations on the passages of an organization: searches, and answers to questions.

use folio_knowledge::ask;
use folio_tools::retrieval::{FoundPassages, PassageQuery};
use folio_types::Result;
use folio_types::access::Scope;
use serde::Serialize;

use crate::context::Context;
use crate::declaration::{Declaration, Quota, service};
use crate::operation::{Operation, outcome_as_json};

pub use folio_knowledge::{ANSWER_PASSAGES_DEFAULT, Answer, AnswerCitation, Question};

service! {
    "RetrievalService", Some(Scope::Documents) => Search, Ask
}

/// Returns the passages that match a query best.
#[derive(Debug, Clone, Serialize)]
pub struct Search {
    pub query: PassageQuery,
}

impl Operation for Search {
    const DECLARATION: Declaration = SERVICE.read("Search").long().quota(Quota::ModelCalls);
    type Output = FoundPassages;

    async fn run(self, context: &Context) -> Result<FoundPassages> {
        let resources = context.tool_resources()?;
        resources.retriever.search(&resources, context.principal(), &self.query).await
    }
}

/// Answers a question from passages, by one model call. A repeated request returns the recorded answer without a model call.
#[derive(Debug, Clone, Serialize)]
pub struct Ask {
    pub question: Question,
}

impl Operation for Ask {
    const DECLARATION: Declaration = SERVICE.change("Ask").long().quota(Quota::ModelCalls).recorded_outcome();
    type Output = Answer;
    outcome_as_json!();

    async fn run(self, context: &Context) -> Result<Answer> {
        let resources = context.tool_resources()?;
        ask(resources.retriever.as_ref(), &resources, context.principal(), self.question).await
    }
}
