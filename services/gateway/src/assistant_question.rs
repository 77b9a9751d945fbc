//! A question to the assistant, as REST and the Model Context Protocol receive it, and its typed answer.

use folio_history::command::{ChatCommand, IfBusy};
use folio_history::event::RoundView;
use folio_history::journal::Mention;
use folio_resources::CollectionId;
use folio_types::profile::{ASSISTANT_PROFILE, NodeKind};
use folio_types::{DocumentId, Error, Result, TagId, ThreadId, limits};
use serde_json::Value;

/// A question, the request for a summary, or a calculation.
pub(crate) struct Question {
    pub(crate) text: String,
    /// The only documents of a new conversation. Empty: all documents of the organization.
    pub(crate) documents: Vec<DocumentId>,
    /// Only documents with all of these tags.
    pub(crate) tags: Vec<TagId>,
    /// Only members of any of these collections. Empty: no condition.
    pub(crate) collections: Vec<CollectionId>,
    /// The conversation that the question continues. None: a new one.
    pub(crate) thread: Option<ThreadId>,
}

impl Question {
    /// Returns the command that asks the question, after the turns of the conversation that run.
    ///
    /// # Errors
    /// `INVALID_FIELD` if a bound is exceeded, or the question is blank.
    pub(crate) fn command(self) -> Result<ChatCommand> {
        let Self { text, documents, tags, collections, thread } = self;
        if text.trim().is_empty() || text.len() > limits::USER_TEXT_BYTES {
            let problem = format!("must not be blank and must have at most {} bytes", limits::USER_TEXT_BYTES);
            return Err(Error::invalid_field("question", problem));
        }
        if documents.len() > limits::DOCUMENTS_PER_THREAD {
            let problem = format!("has more than {} elements", limits::DOCUMENTS_PER_THREAD);
            return Err(Error::invalid_field("document_ids", problem));
        }
        let mentions: Vec<Mention> =
            tags.into_iter().map(Mention::Tag).chain(collections.into_iter().map(Mention::Collection)).collect();
        if mentions.len() > limits::MENTIONS_MAX {
            let problem = format!("and collection_ids have more than {} elements together", limits::MENTIONS_MAX);
            return Err(Error::invalid_field("tag_ids", problem));
        }
        Ok(ChatCommand {
            profile: Some(ASSISTANT_PROFILE.to_owned()),
            documents,
            mentions,
            thread,
            if_busy: IfBusy::Enqueue,
            ..ChatCommand::new(text)
        })
    }
}

/// Returns the type and the answer of the node that answered. None: no node of the rounds has answered.
pub(crate) fn typed_answer(rounds: &[RoundView]) -> Option<(&str, &Value)> {
    let mut nodes = rounds.iter().rev().filter_map(|round| round.node.as_deref());
    let node = nodes.find(|node| node.kind == NodeKind::Answer)?;
    Some((node.answer_type.as_str(), node.end.as_ref()?.answer.as_ref()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(tags: usize, collections: usize) -> Question {
        let name = |at: usize| at.to_string();
        Question {
            text: "Who pays?".to_owned(),
            documents: Vec::new(),
            tags: (0..tags).map(|at| TagId::derive(&[&name(at)])).collect(),
            collections: (0..collections).map(|at| CollectionId::derive(&[&name(at)])).collect(),
            thread: None,
        }
    }

    #[test]
    fn tags_and_collections_are_mentions() {
        let command = question(1, 1).command().unwrap();
        assert_eq!(command.profile.as_deref(), Some("assistant"));
        assert!(matches!(command.mentions.as_slice(), [Mention::Tag(_), Mention::Collection(_)]));
        assert!(question(10, 10).command().is_ok());
    }

    #[test]
    fn a_question_out_of_bounds_is_refused_with_its_field() {
        let documents = vec![DocumentId::derive(&["a"]); limits::DOCUMENTS_PER_THREAD + 1];
        for (refused, field) in [
            (Question { text: " \n".to_owned(), ..question(0, 0) }, "question"),
            (Question { text: "a".repeat(limits::USER_TEXT_BYTES + 1), ..question(0, 0) }, "question"),
            (Question { documents, ..question(0, 0) }, "document_ids"),
            (question(10, 11), "tag_ids"),
        ] {
            assert_eq!(refused.command().unwrap_err().violations[0].field, field);
        }
    }
}
