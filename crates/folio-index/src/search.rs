//! A search, with its bounds.

use folio_types::limits::{METADATA_MAX, TAGS_MAX};
use folio_types::{DocumentId, Error, Result, TagId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::passage::{Embedding, at_most, validate_language, validate_metadata};

/// Maximum length of the text of a search, in characters.
const TEXT_CHARS: usize = 4_000;
/// Maximum passages of an answer.
const LIMIT_MAX: u32 = 100;
/// Maximum documents of a filter.
const FILTER_DOCUMENTS_MAX: usize = 1_000;
/// Maximum languages of a filter.
const FILTER_LANGUAGES_MAX: usize = 20;

/// Maximum collections of a filter.
const FILTER_COLLECTIONS_MAX: usize = 20;

/// The rule of a collection of documents: conditions, all of which apply.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DocumentRule {
    /// Documents with all of these tags.
    pub tags: Vec<TagId>,
    /// Documents with all of these values, compared exactly.
    pub metadata: Vec<(String, String)>,
}

impl DocumentRule {
    fn validate(&self) -> Result<()> {
        at_most("filter.collections", self.tags.len(), TAGS_MAX, "tags")?;
        validate_metadata("filter.collections", self.metadata.iter().map(|(key, value)| (key, value)))
    }
}

/// Conditions on passages, all of which must hold. The default matches every passage.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Filter {
    /// Passages of any of these documents. None: of all documents. Empty: no passage matches.
    pub documents: Option<Vec<DocumentId>>,
    /// Passages of documents with all of these tags.
    pub tags: Vec<TagId>,
    /// Passages of documents with all of these values, compared exactly.
    pub metadata: Vec<(String, String)>,
    /// Passages of documents with this date or a later one.
    pub from: Option<Timestamp>,
    /// Passages of documents with an earlier date.
    pub before: Option<Timestamp>,
    /// Passages in any of these languages. Empty: in all languages.
    pub languages: Vec<String>,
    /// Passages of documents in any of these collections. Empty: of all documents.
    #[serde(default)]
    pub collections: Vec<DocumentRule>,
}

/// A hybrid search. Operators, quotes and wildcards in the text have no meaning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// Words for the lexical part. Empty: the dense part only.
    pub text: String,
    /// The vector of the text for the dense part. None: the lexical part only.
    pub vector: Option<Embedding>,
    pub filter: Filter,
    /// Maximum passages of the answer: 1 to 100.
    pub limit: u32,
}

impl Search {
    /// Checks the bounds.
    ///
    /// # Errors
    /// `INVALID_FIELD` or `TOO_LARGE` with the name of the field.
    pub fn validate(&self) -> Result<()> {
        at_most("text", self.text.chars().count(), TEXT_CHARS, "characters")?;
        if self.text.trim().is_empty() && self.vector.is_none() {
            return Err(Error::invalid_field("text", "is empty, and the search has no vector"));
        }
        if let Some(vector) = &self.vector {
            vector.validate("vector")?;
        }
        if !(1..=LIMIT_MAX).contains(&self.limit) {
            return Err(Error::invalid_field("limit", format!("is {}; the limit is 1 to {LIMIT_MAX}", self.limit)));
        }
        let Filter { documents, tags, metadata, from: _, before: _, languages, collections } = &self.filter;
        let documents = documents.as_ref().map_or(0, Vec::len);
        at_most("filter.documents", documents, FILTER_DOCUMENTS_MAX, "documents")?;
        at_most("filter.tags", tags.len(), TAGS_MAX, "tags")?;
        at_most("filter.metadata", metadata.len(), METADATA_MAX, "entries")?;
        validate_metadata("filter.metadata", metadata.iter().map(|(key, value)| (key, value)))?;
        at_most("filter.collections", collections.len(), FILTER_COLLECTIONS_MAX, "collections")?;
        collections.iter().try_for_each(DocumentRule::validate)?;
        at_most("filter.languages", languages.len(), FILTER_LANGUAGES_MAX, "languages")?;
        languages.iter().try_for_each(|language| validate_language("filter.languages", language))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(text: &str) -> Search {
        Search { text: text.to_owned(), vector: None, filter: Filter::default(), limit: 10 }
    }

    #[test]
    fn a_search_out_of_bounds_is_refused() {
        assert!(search("a").validate().is_ok());
        assert!(search(&"語".repeat(TEXT_CHARS)).validate().is_ok());
        let with_filter = |filter| Search { filter, ..search("a") };
        let vector = |values| Some(Embedding { space: "a".to_owned(), values });
        for refused in [
            search(" \n"),
            search(&"a".repeat(TEXT_CHARS + 1)),
            Search { limit: 0, ..search("a") },
            Search { limit: 101, ..search("a") },
            Search { vector: vector(vec![f32::NAN]), ..search("a") },
            with_filter(Filter { documents: Some(vec![DocumentId::derive(&["a"]); 1_001]), ..Filter::default() }),
            with_filter(Filter { tags: vec![TagId::derive(&["a"]); 51], ..Filter::default() }),
            with_filter(Filter { metadata: vec![("a".repeat(201), String::new())], ..Filter::default() }),
            with_filter(Filter { metadata: vec![("a".to_owned(), "b".repeat(1_025))], ..Filter::default() }),
            with_filter(Filter { languages: vec!["EN".to_owned()], ..Filter::default() }),
            with_filter(Filter { collections: vec![DocumentRule::default(); 21], ..Filter::default() }),
            with_filter(Filter {
                collections: vec![DocumentRule { tags: vec![TagId::derive(&["a"]); 51], metadata: vec![] }],
                ..Filter::default()
            }),
            with_filter(Filter { languages: vec!["en".to_owned(); 21], ..Filter::default() }),
        ] {
            assert!(refused.validate().is_err(), "{refused:?}");
        }
    }
}
