//! Extractions that wait for a reviewer.

use folio_resources::{CreationPeriod, Extraction, ExtractionFilter, FieldDecision, leaves};
use folio_types::{DocumentId, ExtractionId, PromptRevId, SchemaRevId, Timestamp, UserId};
use serde::Serialize;

use crate::waiting_items::WaitingItem;

/// An extraction that waits for a reviewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingReview {
    pub extraction: ExtractionId,
    pub document: DocumentId,
    pub prompt: PromptRevId,
    /// None: the prompt has no schema.
    pub schema: Option<SchemaRevId>,
    /// User that requested the review. None: the extraction waits because of decisions about its values.
    pub requested_by: Option<UserId>,
    /// Number of values that contain no other values.
    pub values: usize,
    pub approved: usize,
    pub rejected: usize,
    /// Time of creation of the extraction.
    pub created_at: Timestamp,
}

impl WaitingItem for PendingReview {
    type Resource = Extraction;

    fn filter(created: Option<CreationPeriod>) -> ExtractionFilter {
        ExtractionFilter { is_waiting_for_review: true, created, ..ExtractionFilter::default() }
    }

    fn of(extraction: Extraction) -> Self {
        Self {
            values: leaves(extraction.current()).len(),
            approved: extraction.fields.decided(FieldDecision::Approved),
            rejected: extraction.fields.decided(FieldDecision::Rejected),
            extraction: extraction.id,
            document: extraction.document,
            prompt: extraction.prompt,
            schema: extraction.schema,
            requested_by: extraction.fields.requested_by,
            created_at: extraction.created_at,
        }
    }

    fn id(&self) -> &ExtractionId {
        &self.extraction
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }
}
