//! Extractions.

use async_trait::async_trait;
use folio_types::extraction::Extraction;
use folio_types::op::{Decided, Write};
use folio_types::page::{Page, PageRequest};
use folio_types::{DocumentId, ExtractionId, OrgId, PromptRevId, Result, SchemaRevId, Timestamp};
use serde_json::Value;

/// What a run gave.
#[derive(Debug, Clone, PartialEq)]
pub struct NewExtraction {
    /// The document that was read; it must live.
    pub document: DocumentId,
    /// The prompt that was run.
    pub prompt: PromptRevId,
    /// The schema that the data matches.
    pub schema: Option<SchemaRevId>,
    /// The model that answered.
    pub model: String,
    /// The data.
    pub data: Value,
}

/// A change of one extraction.
#[derive(Debug, Clone, PartialEq)]
pub enum ExtractionChange {
    /// A new one.
    Create(NewExtraction),
    /// The edited form from now on; takes `verified` back.
    Edit {
        /// The whole data.
        data: Value,
    },
    /// A person vouches, or takes it back.
    Verify {
        /// Whether it is verified from now on.
        verified: bool,
    },
    /// The tombstone.
    Delete,
}

/// Extractions.
#[async_trait]
pub trait ExtractionStore: Send + Sync {
    /// The deciding write. The result is [`folio_types::op::OpResult::Extraction`] or `Deleted`.
    ///
    /// Errors: `NOT_FOUND` (gone, or its document is), `REQUEST_ID_CONFLICT`.
    async fn decide(&self, id: &ExtractionId, write: Write<ExtractionChange>) -> Result<Decided>;

    /// The live extraction of a live document, or none.
    async fn get(&self, org: &OrgId, id: &ExtractionId) -> Result<Option<Extraction>>;

    /// The newest live extraction of a document, by a prompt revision where one is named.
    async fn newest(
        &self,
        org: &OrgId,
        document: &DocumentId,
        prompt: Option<&PromptRevId>,
    ) -> Result<Option<Extraction>>;

    /// Takes the data out of the op rows of extractions that were deleted at or before `before`, of all organizations, at
    /// most `limit` at once; gives how many: from then on they hold ids and times only. A system index, read by no
    /// request. Those that went with their document: [`super::DocumentStore::forget_deleted`].
    async fn forget_deleted(&self, before: Timestamp, limit: usize) -> Result<usize>;

    /// The live extractions of a document, newest first.
    async fn list(&self, org: &OrgId, document: &DocumentId, page: &PageRequest) -> Result<Page<Extraction>>;
}
