//! The port to the passages of an organization, with the input and the output of a search.

use std::collections::BTreeMap;
use std::fmt;

use async_trait::async_trait;
use folio_passages::LINKED_DOCUMENT;
use folio_resources::{CollectionId, fields};
use folio_types::message::Usage;
use folio_types::{DocumentId, Error, Principal, Reason, Result, TagId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::tool::ToolResources;

/// Maximum length of a query, in characters.
// proto: SearchRequest.query "1 to {} characters"
// proto: AskRequest.question "1 to {} characters"
pub const QUERY_CHARS: usize = 4_000;
/// Maximum passages of an answer.
// proto: SearchRequest.limit "at most {}."
pub const PASSAGES_MAX: u32 = 50;
/// Passages of an answer whose request states no limit.
// proto: SearchRequest.limit "Default: {}."
pub const PASSAGES_DEFAULT: u32 = 10;
/// Maximum documents of a filter.
// proto: PassageFilter.document_ids "at most {} documents"
pub const FILTER_DOCUMENTS_MAX: usize = 1_000;
/// Maximum languages of a filter.
// proto: PassageFilter.languages "at most {} languages"
pub const FILTER_LANGUAGES_MAX: usize = 20;
/// Maximum collections of a filter.
// proto: PassageFilter.collection_ids "at most {} collections"
pub const FILTER_COLLECTIONS_MAX: usize = 20;
/// Minimum and maximum length of the code of a language, in bytes.
const LANGUAGE_BYTES: std::ops::RangeInclusive<usize> = 2..=16;

/// Conditions on passages, all of which must hold. The default matches every passage.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct PassageFilter {
    /// Passages of any of these documents. Empty: of all documents.
    pub document_ids: Vec<DocumentId>,
    /// Passages of documents with all of these tags.
    pub tag_ids: Vec<TagId>,
    /// Passages of documents with all of these values, compared exactly.
    pub metadata: BTreeMap<String, String>,
    /// Passages of documents with this date or a later one.
    pub start_time: Option<Timestamp>,
    /// Passages of documents with an earlier date.
    pub end_time: Option<Timestamp>,
    /// Passages in any of these languages. Empty: in all languages.
    pub languages: Vec<String>,
    /// Passages of the members of any of these collections. Empty: of all documents.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub collection_ids: Vec<CollectionId>,
}

/// A search for passages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassageQuery {
    /// Words, or a question. No character is an operator.
    pub text: String,
    pub filter: PassageFilter,
    /// Maximum passages of the answer: 1 to [`PASSAGES_MAX`].
    pub limit: u32,
    /// True: the rerank model of the organization orders the passages.
    pub is_reranked: bool,
}

impl PassageQuery {
    /// Returns a query without a filter, for [`PASSAGES_DEFAULT`] passages.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), filter: PassageFilter::default(), limit: PASSAGES_DEFAULT, is_reranked: false }
    }

    /// Checks the bounds. `field`: the name of the text in errors.
    ///
    /// # Errors
    /// `INVALID_FIELD` or `TOO_LARGE` with the name of the field.
    pub fn check(&self, field: &str) -> Result<()> {
        if self.text.trim().is_empty() {
            return Err(Error::invalid_field(field, "is missing"));
        }
        fields::paragraph(field, &self.text, QUERY_CHARS)?;
        if !(1..=PASSAGES_MAX).contains(&self.limit) {
            return Err(Error::invalid_field("limit", format!("is {}; the limit is 1 to {PASSAGES_MAX}", self.limit)));
        }
        self.filter.check()
    }
}

impl PassageFilter {
    fn check(&self) -> Result<()> {
        let Self { document_ids, tag_ids, metadata, start_time, end_time, languages, collection_ids } = self;
        if document_ids.len() > FILTER_DOCUMENTS_MAX {
            let problem = format!("has {} documents; the maximum is {FILTER_DOCUMENTS_MAX}", document_ids.len());
            return Err(Error::invalid_field("passage_filter.document_ids", problem).with_reason(Reason::TooLarge));
        }
        if collection_ids.len() > FILTER_COLLECTIONS_MAX {
            let problem = format!("has {} collections; the maximum is {FILTER_COLLECTIONS_MAX}", collection_ids.len());
            return Err(Error::invalid_field("passage_filter.collection_ids", problem));
        }
        fields::check_tags("passage_filter.tag_ids", tag_ids)?;
        fields::check_metadata("passage_filter.metadata", metadata)?;
        if let (Some(start), Some(end)) = (start_time, end_time)
            && start >= end
        {
            return Err(Error::invalid_field("passage_filter.end_time", "must be later than start_time"));
        }
        if languages.len() > FILTER_LANGUAGES_MAX {
            let problem = format!("has {} languages; the maximum is {FILTER_LANGUAGES_MAX}", languages.len());
            return Err(Error::invalid_field("passage_filter.languages", problem));
        }
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_code = |code: &str| LANGUAGE_BYTES.contains(&code.len()) && code.bytes().all(is_part);
        match languages.iter().position(|code| !is_code(code)) {
            None => Ok(()),
            Some(at) => Err(Error::invalid_field(
                format!("passage_filter.languages[{at}]"),
                "must be a code such as de or pt-br",
            )),
        }
    }
}

/// The rank of a passage in one part of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PassageRank {
    /// Position in the ranking of the part, from 1.
    pub rank: u32,
    /// BM25 of the lexical part, cosine of the dense part.
    pub score: f32,
}

/// A rectangle on a page, in fractions of its width and height. The origin is the upper left corner.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PassageArea {
    /// Number of the page, from 1.
    pub page: u32,
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

/// A word of a passage that matches a word of the query.
#[derive(Debug, Clone, PartialEq)]
pub struct Highlight {
    /// Index in the text of the passage of the first character.
    pub start: u32,
    /// Index after the last character.
    pub end: u32,
    /// The rectangle of the word; for a word in a table, of its row or of the table. None: the position is unknown.
    pub area: Option<PassageArea>,
}

/// A passage that a search found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundPassage {
    pub document: DocumentId,
    pub document_name: String,
    /// Position in the document, from 0.
    pub number: u32,
    pub text: String,
    /// Tokens of the text.
    pub tokens: u64,
    /// The section in the current text of the document.
    pub section_id: String,
    /// Titles from the top of the document down to the section.
    pub section_titles: Vec<String>,
    /// Page of the first character, from 1.
    pub page: u32,
    /// Code of the language. None: unknown.
    pub language: Option<String>,
    /// Metadata of the document, and the position of the passage. A key may be repeated.
    pub metadata_pairs: Vec<(String, String)>,
    /// The relevance if the passage was reranked, otherwise the fused score of both parts, at most `2 / 61`.
    pub score: f64,
    /// None: not among the candidates of the part.
    pub lexical: Option<PassageRank>,
    /// None: not among the candidates of the part.
    pub dense: Option<PassageRank>,
    /// The relevance by the rerank model. None: the passage was not reranked.
    pub relevance: Option<f64>,
    pub highlights: Vec<Highlight>,
    /// The rectangles around the words of the passage, one for each page. Empty: the positions are unknown.
    pub areas: Vec<PassageArea>,
}

impl FoundPassage {
    /// Returns the ids of the documents that the links of the passage refer to.
    pub fn linked_documents(&self) -> impl Iterator<Item = &str> {
        self.metadata_pairs.iter().filter(|(key, _)| key == LINKED_DOCUMENT).map(|(_, id)| id.as_str())
    }
}

/// The reason for which a part of a search did not consider passages, or was not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchGap {
    /// The organization has no embedding model, so that the search is lexical only.
    NoEmbeddingModel,
    /// No passage has a vector, because the documents are not embedded yet.
    NotEmbedded,
    /// The vector of the query could not be computed, for this reason.
    EmbeddingFailed(String),
    /// The query contains no word.
    NoWords,
    IndexMissing,
    IndexRebuilding,
    IndexDamaged,
    /// The vectors of this number of passages do not fit into the memory of the index.
    Memory(u64),
    /// This number of passages have no vector of the embedding model.
    WithoutVector(u64),
    NoRerankModel,
    /// The passages could not be reranked, for this reason.
    RerankFailed(String),
}

impl SearchGap {
    /// Returns the name of the reason in the API.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoEmbeddingModel => "no_embedding_model",
            Self::NotEmbedded => "not_embedded",
            Self::EmbeddingFailed(_) => "embedding_failed",
            Self::NoWords => "no_words",
            Self::IndexMissing => "index_missing",
            Self::IndexRebuilding => "index_rebuilding",
            Self::IndexDamaged => "index_damaged",
            Self::Memory(_) => "memory",
            Self::WithoutVector(_) => "without_vector",
            Self::NoRerankModel => "no_rerank_model",
            Self::RerankFailed(_) => "rerank_failed",
        }
    }

    /// Returns the number of passages that were not considered. 0: unknown.
    pub fn passages(&self) -> u64 {
        match self {
            Self::Memory(passages) | Self::WithoutVector(passages) => *passages,
            Self::NoEmbeddingModel
            | Self::NotEmbedded
            | Self::EmbeddingFailed(_)
            | Self::NoWords
            | Self::IndexMissing
            | Self::IndexRebuilding
            | Self::IndexDamaged
            | Self::NoRerankModel
            | Self::RerankFailed(_) => 0,
        }
    }
}

/// Describes the gap in words, for people and models.
impl fmt::Display for SearchGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEmbeddingModel => f.write_str("the organization has no embedding model"),
            Self::NotEmbedded => f.write_str("no passage has a vector yet"),
            Self::EmbeddingFailed(problem) => write!(f, "the vector of the query could not be computed: {problem}"),
            Self::NoWords => f.write_str("the query contains no word"),
            Self::IndexMissing => f.write_str("no document of the organization is indexed"),
            Self::IndexRebuilding => f.write_str("the index is being rebuilt and contains a part of the documents"),
            Self::IndexDamaged => f.write_str("the index is damaged or of another version, and will be rebuilt"),
            Self::Memory(passages) => {
                write!(f, "the vectors of {passages} passages do not fit into the memory of the index")
            }
            Self::WithoutVector(passages) => {
                write!(f, "{passages} passages have no vector of the embedding model")
            }
            Self::NoRerankModel => f.write_str("the organization has no rerank model"),
            Self::RerankFailed(problem) => write!(f, "the passages could not be reranked: {problem}"),
        }
    }
}

/// The outcome of a part of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SearchPart {
    /// True if the part ranked passages. The part considered all passages only if `gaps` is empty.
    pub is_used: bool,
    pub gaps: Vec<SearchGap>,
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FoundPassages {
    /// Best first. Passages that a rerank model did not rate follow the others.
    pub passages: Vec<FoundPassage>,
    pub lexical: SearchPart,
    pub dense: SearchPart,
    /// None: the query requested no reranking.
    pub rerank: Option<SearchPart>,
    /// Passages that the index contains, but whose document was deleted, or changed since it was indexed. They were left
    /// out.
    pub stale_passages: u32,
    /// The usage of the model calls with the charged credits. Empty: no model was called.
    pub usage: Usage,
}

impl FoundPassages {
    /// Returns one sentence for each gap, for models. The reasons of failures are not stated, because they describe the
    /// installation.
    pub fn notes(&self) -> Vec<String> {
        let parts = [("Words", Some(&self.lexical)), ("Meaning", Some(&self.dense)), ("Order", self.rerank.as_ref())];
        let gaps = parts.into_iter().flat_map(|(name, part)| {
            part.into_iter().flat_map(move |part| part.gaps.iter().map(move |gap| (name, gap)))
        });
        let note = |(name, gap): (&str, &SearchGap)| match gap {
            SearchGap::EmbeddingFailed(_) => format!("{name}: the vector of the query could not be computed."),
            SearchGap::RerankFailed(_) => format!("{name}: the passages could not be reranked."),
            gap => format!("{name}: {gap}."),
        };
        gaps.map(note).collect()
    }
}

/// Finds passages of the documents of an organization.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// Returns the passages of the principal's organization that match a query best. A part that cannot be used is named in
    /// the answer; it is no error. `resources`: the models and the meter that the search uses.
    ///
    /// # Errors
    /// `INVALID_FIELD` or `TOO_LARGE` if the query exceeds a bound, `OVERLOADED` if too many searches wait, those of the
    /// stores.
    async fn search(
        &self,
        resources: &ToolResources,
        principal: &Principal,
        query: &PassageQuery,
    ) -> Result<FoundPassages>;
}

/// A retriever of a process without an index: every search finds nothing and says that the index is missing.
#[derive(Debug)]
pub struct NoRetriever;

#[async_trait]
impl Retriever for NoRetriever {
    async fn search(&self, _: &ToolResources, _: &Principal, query: &PassageQuery) -> Result<FoundPassages> {
        query.check("query")?;
        let missing = || SearchPart { is_used: false, gaps: vec![SearchGap::IndexMissing] };
        Ok(FoundPassages { lexical: missing(), dense: missing(), ..FoundPassages::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_out_of_bounds_is_refused_with_its_field() {
        let query = || PassageQuery::new("invoice");
        let filtered = |filter| PassageQuery { filter, ..query() };
        assert_eq!(query().check("query"), Ok(()));
        assert_eq!(PassageQuery::new("語".repeat(QUERY_CHARS)).check("query"), Ok(()));
        let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH + std::time::Duration::from_secs(1));
        let languages = |codes: &[&str]| PassageFilter {
            languages: codes.iter().map(|code| (*code).to_owned()).collect(),
            ..PassageFilter::default()
        };
        for (refused, field) in [
            (PassageQuery::new(" \n"), "query"),
            (PassageQuery::new("a\0"), "query"),
            (PassageQuery::new("a".repeat(QUERY_CHARS + 1)), "query"),
            (PassageQuery { limit: 0, ..query() }, "limit"),
            (PassageQuery { limit: PASSAGES_MAX + 1, ..query() }, "limit"),
            (
                filtered(PassageFilter {
                    document_ids: vec![DocumentId::derive(&["a"]); FILTER_DOCUMENTS_MAX + 1],
                    ..PassageFilter::default()
                }),
                "passage_filter.document_ids",
            ),
            (
                filtered(PassageFilter {
                    collection_ids: vec![CollectionId::derive(&["a"]); FILTER_COLLECTIONS_MAX + 1],
                    ..PassageFilter::default()
                }),
                "passage_filter.collection_ids",
            ),
            (
                filtered(PassageFilter {
                    tag_ids: (0..100).map(|at: u32| TagId::derive(&[&at.to_string()])).collect(),
                    ..PassageFilter::default()
                }),
                "passage_filter.tag_ids",
            ),
            (
                filtered(PassageFilter {
                    metadata: BTreeMap::from([(String::new(), "a".to_owned())]),
                    ..PassageFilter::default()
                }),
                "passage_filter.metadata",
            ),
            (
                filtered(PassageFilter { start_time: Some(late), end_time: Some(early), ..PassageFilter::default() }),
                "passage_filter.end_time",
            ),
            (filtered(languages(&["de", "German"])), "passage_filter.languages[1]"),
            (filtered(languages(&["de"; FILTER_LANGUAGES_MAX + 1])), "passage_filter.languages"),
        ] {
            assert_eq!(refused.check("query").unwrap_err().violations[0].field, field, "{refused:?}");
        }
    }

    #[test]
    fn models_receive_no_reasons_of_failures() {
        let part = |gaps| SearchPart { is_used: false, gaps };
        let found = FoundPassages {
            lexical: part(vec![SearchGap::NoWords]),
            dense: part(vec![SearchGap::EmbeddingFailed("http://10.0.0.1 refused".to_owned()), SearchGap::Memory(3)]),
            rerank: Some(part(vec![SearchGap::RerankFailed("http://10.0.0.1 refused".to_owned())])),
            ..FoundPassages::default()
        };
        let notes = found.notes();
        assert_eq!(notes.len(), 4);
        assert!(notes.iter().all(|note| note.ends_with('.') && !note.contains("10.0.0.1")), "{notes:?}");
        assert_eq!(notes[2], "Meaning: the vectors of 3 passages do not fit into the memory of the index.");
    }
}
