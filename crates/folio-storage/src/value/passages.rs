//! The stored values of passages.

use folio_types::{DocumentId, JobId, Timestamp};
use serde::{Deserialize, Serialize};

/// The vector of a passage in one vector space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredVector {
    /// The identity of the vectors that can be compared with it: provider, model, dimensions, and a digest of the prefix of passages.
    pub space: String,
    #[serde(with = "super::numbers")]
    pub values: Vec<f32>,
}

/// A part of the text of a passage, and the characters of a page that it is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSegment {
    /// Index in the text of the passage of the first character.
    pub text_start: u32,
    /// Page numbers start at 1.
    pub page: u32,
    /// Index in the text of the page of the first character.
    pub start: u32,
    /// Index in the text of the page after the last character.
    pub end: u32,
    /// True: character `text_start + n` of the passage is character `start + n` of the page. False: rows of a table, which
    /// the passage contains in another form.
    pub is_verbatim: bool,
}

/// A passage of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredPassage {
    /// Position in the document, from 0, without gaps.
    pub number: u32,
    pub text: String,
    /// Lines of context, which models and the index read with the text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub padding: String,
    /// Id of the section in the generation of the text.
    pub section_id: String,
    /// Titles from the document's top down to the section. Empty: text above the first heading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub section_titles: Vec<String>,
    /// Page of the first character, from 1.
    pub source_page: u32,
    /// The origin of the text, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<StoredSegment>,
    /// Tokens of the text without the padding.
    pub tokens: u64,
    /// Code of the language, such as `de`. None: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Metadata of the document, the position of the passage, and its images. A key may be repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metadata_pairs: Vec<(String, String)>,
    /// At most one vector for each of two spaces. Empty: the organization had no embedding model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vectors: Vec<StoredVector>,
}

impl StoredPassage {
    /// Returns a passage of one token on the first page, outside of any section and without vectors.
    pub fn of_text(number: u32, text: impl Into<String>) -> Self {
        Self {
            number,
            text: text.into(),
            padding: String::new(),
            section_id: String::new(),
            section_titles: Vec::new(),
            source_page: 1,
            segments: Vec::new(),
            tokens: 1,
            language: None,
            metadata_pairs: Vec::new(),
            vectors: Vec::new(),
        }
    }
}

/// The live generation of the passages of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassageHead {
    pub document: DocumentId,
    /// A later generation has a larger number.
    pub generation: u64,
    /// Number of passages. Their numbers are 0 to one less.
    pub passages: u32,
    /// The newest vector space in which every passage has a vector. None: the passages have no vectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// Time at which the text was stored whose passages these are.
    pub text_generation: Timestamp,
    pub created_at: Timestamp,
}

/// A generation whose passages are stored completely, partly, or are being removed. Written before its first passage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassageGeneration {
    pub generation: u64,
    pub passages: u32,
}

/// A bucket of heads that contains or contained one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassageBucket {
    pub bucket: u8,
}

/// The vector space in which searches of an organization are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServingSpace {
    /// Name of the embedding model, for the vectors of queries.
    pub model: String,
    /// The identity of its vectors.
    pub space: String,
}

/// The newest job that ingests or has ingested a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastIngestion {
    pub job: JobId,
    /// Number of the document's item in the job, from 1.
    pub item: u32,
}
