//! Answers of an index.

use folio_types::DocumentId;
use serde::{Deserialize, Serialize};

/// The state of the index of an organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IndexState {
    /// The index contains every document that was written to it.
    Ready,
    /// A rebuild has begun and not ended. The index contains a part of the documents. After a crash the state remains,
    /// and the caller begins the rebuild again.
    Rebuilding,
    /// The organization has no index.
    Missing,
    /// The index is damaged.
    Torn,
    /// Another version of Folio wrote the index in another format.
    OtherVersion,
}

impl IndexState {
    /// Returns true if the index can be searched and written.
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Ready | Self::Rebuilding)
    }
}

/// The result of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Written {
    /// The write is stored, except for documents of which the index has a later generation.
    Applied { stale: usize },
    /// Nothing was written: the caller rebuilds the index first.
    NotUsable(IndexState),
}

/// The reason for which a part of a search did not consider passages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gap {
    /// The search has no vector, or no text.
    NotRequested,
    /// The text of the search contains no word.
    NoWords,
    /// The index is missing, damaged, of another version, or being rebuilt.
    State(IndexState),
    /// The vectors of this number of passages do not fit into the memory of the index. The number includes passages
    /// that the filter excludes.
    Memory { passages: u64 },
    /// This number of passages that match the filter have no vector in the space of the search.
    WithoutVector { passages: u64 },
}

/// The use of a part of the index by a search.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PartUse {
    /// True if the part ranked passages. The part considered all passages only if `gaps` is empty.
    pub is_used: bool,
    pub gaps: Vec<Gap>,
}

/// The rank of a passage in one part.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PartScore {
    /// Position in the ranking of the part, from 1.
    pub rank: u32,
    /// BM25 of the lexical part, cosine of the dense part.
    pub score: f32,
}

/// A passage that matches a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    pub document: DocumentId,
    /// The generation that was indexed. The caller compares it with that of the document.
    pub generation: u64,
    /// Position of the passage in the document.
    pub number: u32,
    /// The fused score of [`crate::fuse`]: at most `2 / 61`.
    pub score: f64,
    /// None: not among the candidates of the part.
    pub lexical: Option<PartScore>,
    /// None: not among the candidates of the part.
    pub dense: Option<PartScore>,
}

/// The answer to a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Passages by descending score. Equal scores are in the order of documents and numbers.
    pub hits: Vec<Hit>,
    pub lexical: PartUse,
    pub dense: PartUse,
}

impl Answer {
    /// Returns the answer of an index that cannot be used in this state.
    pub fn unusable(state: IndexState) -> Self {
        let part = PartUse { is_used: false, gaps: vec![Gap::State(state)] };
        Self { hits: Vec::new(), lexical: part.clone(), dense: part }
    }
}

/// An indexed document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedDocument {
    pub document: DocumentId,
    pub generation: u64,
    pub passages: u32,
}

/// The sizes of the index of an organization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    pub state: IndexState,
    /// Passages that can be found.
    pub passages: u64,
    /// Deleted or replaced passages that are not yet removed from the disk.
    pub deleted_passages: u64,
    /// Bytes on the disk. None: the adapter does not know them.
    pub disk_bytes: Option<u64>,
    /// Bytes of the vectors in memory.
    pub memory_bytes: u64,
}
