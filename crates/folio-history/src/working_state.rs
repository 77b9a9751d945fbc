//! The working state of a thread and its changes.

use folio_types::{DocumentId, ExtractionId, PromptId, PromptRevId, SchemaId, SchemaRevId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The working state of a thread: sent to the model in each round and stored after each turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkingState {
    /// The revision that was created last.
    pub schema_revid: Option<SchemaRevId>,
    /// The revision that was created or executed last.
    pub prompt_revid: Option<PromptRevId>,
    /// The extraction that was created or edited last.
    pub extraction: Option<WorkingExtraction>,
    /// State of the profile, whose type only the tools of the profile know. None: the initial state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_state: Option<Box<Value>>,
}

/// The extraction that the agent edits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingExtraction {
    pub id: ExtractionId,
    pub document: DocumentId,
    pub prompt: PromptRevId,
    /// Current data, after the agent's edits.
    pub data: Value,
}

/// Changes that a call makes to the working state. Deleted resources are removed from the state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkingChange {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_revid: Option<SchemaRevId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_revid: Option<PromptRevId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extraction: Option<WorkingExtraction>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_schema: Option<SchemaId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_prompt: Option<PromptId>,
    /// The document's extraction is removed as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_document: Option<DocumentId>,
    /// Replaces the state of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile_state: Option<Box<Value>>,
}

impl WorkingChange {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl WorkingState {
    /// Returns true if the state has a schema, a prompt or an extraction.
    pub fn has_work(&self) -> bool {
        self.schema_revid.is_some() || self.prompt_revid.is_some() || self.extraction.is_some()
    }

    pub fn apply(&mut self, change: &WorkingChange) {
        if let Some(deleted) = &change.deleted_schema {
            self.schema_revid.take_if(|revid| revid.of == *deleted);
        }
        if let Some(deleted) = &change.deleted_prompt {
            self.prompt_revid.take_if(|revid| revid.of == *deleted);
        }
        if let Some(deleted) = &change.deleted_document {
            self.extraction.take_if(|extraction| extraction.document == *deleted);
        }
        if let Some(revid) = &change.schema_revid {
            self.schema_revid = Some(revid.clone());
        }
        if let Some(revid) = &change.prompt_revid {
            self.prompt_revid = Some(revid.clone());
        }
        if let Some(extraction) = &change.extraction {
            self.extraction = Some(extraction.clone());
        }
        if let Some(state) = &change.profile_state {
            self.profile_state = Some(state.clone());
        }
    }
}
