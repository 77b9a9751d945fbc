//! Extractions: what a prompt read out of a document, and what people made of it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{DocumentId, ExtractionId, OrgId, PromptRevId, SchemaRevId, UserId};

/// An extraction. The original, the edited form and the verified flag are all kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extraction {
    /// Its id.
    pub id: ExtractionId,
    /// Its organization.
    pub org: OrgId,
    /// The document that was read.
    pub document: DocumentId,
    /// The prompt that was run.
    pub prompt: PromptRevId,
    /// The schema that it was held against.
    pub schema: Option<SchemaRevId>,
    /// The model that answered.
    pub model: String,
    /// What the model gave.
    pub original: serde_json::Value,
    /// What it is now, where it was edited.
    pub edited: Option<serde_json::Value>,
    /// Whether a person vouches for it; any edit takes that back.
    pub verified: bool,
    /// Who vouches.
    pub verified_by: Option<UserId>,
    /// Who ran it.
    pub created_by: UserId,
    /// When.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Grows with every change; what a write expects.
    pub version: u64,
}

impl Extraction {
    /// The data as it is now.
    pub fn current(&self) -> &serde_json::Value {
        self.edited.as_ref().unwrap_or(&self.original)
    }
}
