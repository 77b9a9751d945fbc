//! The documents that the calls of a turn about an organization may read.

use folio_history::journal::Mention;
use folio_resources::{Collection, CollectionId, CollectionRule, Document};
use folio_types::profile::Subject;
use folio_types::{DocumentId, TagId};

use crate::tool::{CallContext, ToolError};

/// The tags and the collections that bound the documents of a turn. The default has no bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentScope {
    /// Documents with all of these tags.
    pub tags: Vec<TagId>,
    /// Members of any of these collections. Empty: no bound.
    pub collections: Vec<CollectionId>,
}

impl DocumentScope {
    /// Returns the scope of a turn: the tags and the collections that the user's message mentions if the turn is about the
    /// organization, otherwise no bound.
    pub fn of_turn(subject: Option<&Subject>, mentions: &[Mention]) -> Self {
        let mut scope = Self::default();
        if subject != Some(&Subject::Organization) {
            return scope;
        }
        for mention in mentions {
            match mention {
                Mention::Tag(id) if !scope.tags.contains(id) => scope.tags.push(id.clone()),
                Mention::Collection(id) if !scope.collections.contains(id) => scope.collections.push(id.clone()),
                Mention::Tag(_) | Mention::Collection(_) | Mention::Schema(_) | Mention::Prompt(_) => {}
            }
        }
        scope
    }
}

/// Decides about single documents. Without a bound, each document of the organization may be read.
pub(crate) struct ReadableDocuments<'c> {
    /// The documents of the thread. Empty: no bound.
    documents: &'c [DocumentId],
    tags: &'c [TagId],
    /// The rules of the collections. Empty: no bound.
    rules: Vec<CollectionRule>,
}

impl<'c> ReadableDocuments<'c> {
    /// Returns the documents that a call may read: of a turn about the organization those of its thread and its scope,
    /// otherwise all.
    ///
    /// # Errors
    /// `ForModel` if a collection of the scope does not exist.
    pub(crate) async fn of(context: &'c CallContext) -> Result<Self, ToolError> {
        let is_bounded = context.subject == Some(Subject::Organization);
        let documents = if is_bounded { context.documents.as_slice() } else { &[] };
        let collections = context.store::<Collection>();
        // A collection that does not exist must not widen the scope.
        let rules = collections.rules(&context.principal.org, &context.scope.collections).await?;
        Ok(Self { documents, tags: &context.scope.tags, rules })
    }

    pub(crate) fn contains(&self, document: &Document) -> bool {
        (self.documents.is_empty() || self.documents.contains(&document.id))
            && self.tags.iter().all(|tag| document.tags.contains(tag))
            && (self.rules.is_empty() || self.rules.iter().any(|rule| rule.is_member(document)))
    }
}

#[cfg(test)]
mod tests {
    use folio_types::StackId;

    use super::*;

    #[test]
    fn only_a_turn_about_the_organization_is_bounded_by_mentions() {
        let (tag, collection) = (TagId::derive(&["a"]), CollectionId::derive(&["b"]));
        let mentions = [Mention::Tag(tag.clone()), Mention::Collection(collection.clone()), Mention::Tag(tag.clone())];
        let scope = DocumentScope::of_turn(Some(&Subject::Organization), &mentions);
        assert_eq!(scope, DocumentScope { tags: vec![tag], collections: vec![collection] });
        for subject in [None, Some(Subject::Stack(StackId::derive(&["s"])))] {
            assert_eq!(DocumentScope::of_turn(subject.as_ref(), &mentions), DocumentScope::default());
        }
    }
}
