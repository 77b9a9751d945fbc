//! The system message: built anew for each model call, from exact parts in a stable order.
//!
//! ```text
//! # Document                what the conversation is about: id and file name
//! # Document text           an excerpt, between <document_text> and </document_text>
//! # Referenced artifacts    what the user's message mentions (left out where it mentions nothing)
//! # Instructions            the profile's
//! # Working state           schema_revid, prompt_revid, and last the extraction between <extraction> and </extraction>
//! ```
//!
//! Everything that people or files wrote is data: names are JSON strings, longer text stands between marks that it cannot
//! close, and whatever is cut says so.

mod documents;
mod load;
mod mentions;
mod text;
mod working;

pub(crate) use documents::DocumentPart;
pub(crate) use load::ContextLoader;
pub(crate) use mentions::Artifact;

use folio_history::journal::WorkingState;
use folio_types::limits;

/// What a system message is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    /// The thread's documents, in its order.
    pub(crate) documents: &'a [DocumentPart],
    /// What the message mentions, in its order.
    pub(crate) artifacts: &'a [Artifact],
    /// The profile's instructions.
    pub(crate) instructions: &'a str,
    /// The working state as it is now.
    pub(crate) working: &'a WorkingState,
    /// Tokens of the model's context: the parts that may be long take no more than a share of it.
    pub(crate) context_tokens: u32,
}

/// The system message.
pub(crate) fn system_message(parts: Parts<'_>) -> String {
    // A quarter of the context, at four characters a token, for each of the parts that may be long.
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
