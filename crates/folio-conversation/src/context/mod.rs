//! The system message, which is rebuilt for each model call from sections in a fixed order.
//!
//! ```text
//! # Document                the subject of the conversation: id and file name
//! # Document text           an excerpt, between <document_text> and </document_text>
//! # Referenced artifacts    references in the user's message (omitted if there are none)
//! # Instructions            instructions of the profile
//! # Working state           schema_revid, prompt_revid, and last the extraction between <extraction> and </extraction>
//! ```
//!
//! Text of users and files is data: names are JSON strings, longer text is enclosed in tags that it cannot contain, and
//! truncated text ends with a note.

mod documents;
mod excerpts;
mod load;
mod mentions;
mod text;
mod working;

pub(crate) use documents::DocumentPart;
pub(crate) use excerpts::Excerpts;
pub(crate) use load::ContextLoader;
pub(crate) use mentions::Artifact;

use folio_history::journal::WorkingState;
use folio_types::limits;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// In the order of the thread.
    pub(crate) documents: &'a [DocumentPart],
    /// In the order of the user's message.
    pub(crate) artifacts: &'a [Artifact],
    pub(crate) instructions: &'a str,
    pub(crate) working: &'a WorkingState,
    /// Context size of the model in tokens, which bounds the sections of variable length.
    pub(crate) context_tokens: u32,
}

pub(crate) fn system_message(parts: Parts<'_>) -> String {
    // Each section of variable length gets a quarter of the context, at four characters per token.
    let share = usize::try_from(parts.context_tokens).unwrap_or(usize::MAX);
    let mut out = String::new();
    documents::write(&mut out, parts.documents);
    mentions::write(&mut out, parts.artifacts, share);
    out.push_str("# Instructions\n\n");
    out.push_str(parts.instructions.trim());
    out.push_str("\n\n");
    working::write(&mut out, parts.working, share.min(limits::WORKING_EXTRACTION_CHARS));
    out
}

#[cfg(test)]
mod tests;
