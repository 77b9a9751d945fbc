//! The offline model: an endpoint's brain made of rules. **It is no LLM.** It understands a handful of requests, reads
//! labelled values out of a document's text, and says so.
//!
//! It sees what any model sees: the system message, the conversation, the tools on offer. Asked to create a schema and a
//! prompt and to extract, it goes through help, validation, creation and extraction call by call, and takes rejections and
//! errors into account. Asked for an extraction (`response_format`), it reads the document's text by rules
//! ([`reading`]) and fills the schema by matching names to labels. It is deterministic and keeps nothing between requests.

mod agent;
mod fill;
pub mod reading;
mod schema;
mod view;

use serde_json::Value;

use crate::answer::{Answer, ThinkingForm};
use crate::brain::{Brain, Decision, Refusal};
use crate::request::{ChatRequest, Role};

/// The name under which the offline model is listed.
pub const MODEL: &str = "folio-offline";

/// The offline model.
#[derive(Debug, Default)]
pub struct OfflineModel(());

impl OfflineModel {
    /// The model. It keeps nothing between requests.
    pub fn new() -> Self {
        Self(())
    }
}

impl Brain for OfflineModel {
    fn decide(&self, request: &ChatRequest, _number: u64) -> Result<Decision, Refusal> {
        let mut answer = match &request.response_format {
            Some(format) => Answer::text(extract(request, &format.schema).to_string()),
            None => agent::answer(request),
        };
        answer.thinking_form = ThinkingForm::ReasoningContent;
        Ok(answer.into())
    }
}

/// Reads the document in the messages and fills the schema.
fn extract(request: &ChatRequest, schema: &Value) -> Value {
    let marked = request.messages.iter().find_map(|message| view::document_text(&message.text));
    let text = marked.unwrap_or_else(|| {
        let said = request.messages.iter().rev().find(|message| message.role == Role::User);
        said.map(|message| message.text.clone()).unwrap_or_default()
    });
    fill::fill(schema, &reading::read(&text))
}

#[cfg(test)]
mod tests;
