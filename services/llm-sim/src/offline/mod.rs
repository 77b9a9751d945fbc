//! The offline model, which consists of rules. **It is not an LLM.** It understands a few requests, reads labelled
//! values in a document's text, and says in its answers that it is no LLM.
//!
//! Its input is that of any model: the system message, the conversation and the offered tools. A request to create a
//! schema and a prompt and to extract leads to calls for help, validation, creation and extraction, which take
//! rejections and errors into account. Images are named by their digests. For a structured response (`response_format`), it reads the document's text by
//! rules ([`reading`]) and fills the schema by matching names to labels. It is deterministic and stateless.

mod agent;
mod fill;
mod passages;
pub mod reading;
mod schema;
mod view;

use serde_json::{Value, json};

use crate::answer::{Answer, ThinkingForm};
use crate::request::{ChatRequest, Role};

/// Name of the offline model in requests.
pub const MODEL: &str = "folio-offline";

pub(crate) fn answer(request: &ChatRequest) -> Answer {
    let answer = match &request.response_format {
        Some(format) if is_description(&format.schema) && !request.images().is_empty() => {
            Answer::text(describe(request.images()).to_string())
        }
        Some(format) if passages::is_answer(&format.schema) => {
            Answer::text(passages::answer(request.user()).to_string())
        }
        Some(format) => Answer::text(extract(request, &format.schema).to_string()),
        None => agent::answer(request),
    };
    Answer { thinking_form: ThinkingForm::ReasoningContent, ..answer }
}

/// Returns true if a schema is that of a description of an image.
fn is_description(schema: &Value) -> bool {
    ["caption", "steps", "entities"].iter().all(|name| schema.pointer(&format!("/properties/{name}")).is_some())
}

/// Describes images by their digests: equal images have equal descriptions.
fn describe(images: &[String]) -> Value {
    let name = |digest: &String| digest.chars().take(8).collect::<String>();
    let names: Vec<String> = images.iter().map(name).collect();
    json!({
        "caption": format!("An image with the digest {}.", names.join(", ")),
        "steps": ["The offline model follows rules and sees no image."],
        "entities": names,
    })
}

/// Reads the document in the messages and fills the schema.
fn extract(request: &ChatRequest, schema: &Value) -> Value {
    let marked = request.messages.iter().find_map(|message| view::document_text(&message.text));
    let text = marked.unwrap_or_else(|| {
        let message = request.messages.iter().rev().find(|message| message.role == Role::User);
        message.map(|message| message.text.clone()).unwrap_or_default()
    });
    fill::fill(schema, &reading::read(&text))
}

#[cfg(test)]
mod tests;
