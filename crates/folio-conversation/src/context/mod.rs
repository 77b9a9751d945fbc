//! The system messages, which are rebuilt for each model call from sections in a fixed order.
//!
//! Providers cache a prompt up to its first changed token, so the parts of a request are ordered by how rarely they change:
//!
//! ```text
//! tools                     in the order of the profile
//! system message
//!   # Instructions          instructions of the profile
//!   # Answer                the JSON Schema of the answer (omitted if the answer is text)
//!   # Document              the subject of the conversation: id and file name
//!   # Document text         an excerpt, between <document_text> and </document_text> (omitted if the profile has none)
//!   # Guide                 guide of the profile (omitted if the thread had a schema at the start of the turn)
//!   # Referenced artifacts  references in the user's message (omitted if there are none)
//! history
//! state message             (omitted if it has no section)
//!   # Earlier conversation  summary of messages before the history, between <summary> and </summary> (omitted if there is none)
//!   # Working state         schema_revid, prompt_revid, the state of the profile between <state> and </state> (if the
//!                           profile has one), and last the extraction between <extraction> and </extraction>;
//!                           then the next call if the turn created the schema, the prompt or the extraction
//! ```
//!
//! Text of users and files is data: names are JSON strings, longer text is enclosed in tags that it cannot contain, and
//! truncated text ends with a note.

mod documents;
mod excerpts;
mod load;
mod mentions;
mod summary;
mod text;
mod working;

pub(crate) use documents::DocumentPart;
pub(crate) use excerpts::Excerpts;
pub(crate) use load::ContextLoader;
pub(crate) use mentions::Artifact;
pub(crate) use summary::{SUMMARY_INSTRUCTIONS, summary_message};

use folio_history::journal::WorkingState;
use folio_types::limits;
use serde_json::Value;

/// Describes an answer that must be JSON.
const ANSWER: &str = "Your answer, which is the message without tool calls, must be one JSON value that matches this JSON \
    Schema, and nothing else:";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// In the order of the thread.
    pub(crate) documents: &'a [DocumentPart],
    /// In the order of the user's message.
    pub(crate) artifacts: &'a [Artifact],
    /// True if the message contains the beginning of the documents' text.
    pub(crate) has_excerpt: bool,
    pub(crate) instructions: &'a str,
    /// JSON Schema of the answer. None: the answer is text.
    pub(crate) answer_schema: Option<&'a Value>,
    /// Empty: none.
    pub(crate) guide: &'a str,
    /// Context size of the model in tokens, which bounds the sections of variable length.
    pub(crate) context_tokens: u32,
}

pub(crate) fn system_message(parts: Parts<'_>) -> String {
    // Each section of variable length gets a quarter of the context, at four characters per token.
    let share = usize::try_from(parts.context_tokens).unwrap_or(usize::MAX);
    let mut out = format!("# Instructions\n\n{}\n\n", parts.instructions.trim());
    if let Some(schema) = parts.answer_schema {
        out.push_str(&format!("# Answer\n\n{ANSWER}\n{schema}\n\n"));
    }
    documents::write(&mut out, parts.documents, parts.has_excerpt);
    if !parts.guide.is_empty() {
        out.push_str(&format!("# Guide\n\n{}\n\n", parts.guide.trim()));
    }
    mentions::write(&mut out, parts.artifacts, share);
    out.truncate(out.trim_end().len());
    out
}

/// Returns the message after the history, which contains the working state. Empty if the working state is empty.
/// `start`: the working state at the start of the turn. `summary`: that of the messages before the history. `context_tokens`: as
/// in [`Parts`].
pub(crate) fn state_message(
    start: &WorkingState,
    working: &WorkingState,
    summary: Option<&str>,
    context_tokens: u32,
) -> String {
    let mut out = String::new();
    if let Some(summary) = summary {
        out.push_str(summary::HEADING);
        text::delimited(&mut out, "summary", summary);
        out.push('\n');
    }
    if *working != WorkingState::default() {
        let share = usize::try_from(context_tokens).unwrap_or(usize::MAX);
        working::write(&mut out, start, working, share.min(limits::WORKING_EXTRACTION_CHARS));
    }
    out
}

#[cfg(test)]
mod tests;
