//! Extractions: the data that a prompt read from a document, and its edits.

use folio_types::op::{OpResult, Write};
use folio_types::{DocumentId, ExtractionId, OrgId, PromptRevId, Result, SchemaRevId, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::prompt::revision_term;
use crate::resource::common_functions;
use crate::{Cleanup, Condition, ListRow, Plan, Resource, term};

/// An extraction. The original, the edited data and the verified flag are all kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extraction {
    /// The id of the extraction.
    pub id: ExtractionId,
    /// The organization of the extraction.
    pub org: OrgId,
    /// The document that was read.
    pub document: DocumentId,
    /// The prompt that was run.
    pub prompt: PromptRevId,
    /// The schema that the data was checked against.
    pub schema: Option<SchemaRevId>,
    /// The model that answered.
    pub model: String,
    /// The data that the model returned.
    pub original: Value,
    /// The edited data; none: never edited.
    pub edited: Option<Value>,
    /// Whether a user confirmed the data; every edit resets it.
    pub verified: bool,
    /// The user that confirmed the data.
    pub verified_by: Option<UserId>,
    /// The user that ran it.
    pub created_by: UserId,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its last change.
    pub updated_at: Timestamp,
    /// Grows with every change; a write expects it.
    pub version: u64,
}

impl Extraction {
    /// Returns the edited data, else the original.
    pub fn current(&self) -> &Value {
        self.edited.as_ref().unwrap_or(&self.original)
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct NewExtraction {
    /// The document that was read; it must be live.
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
    /// Creates an extraction.
    Create(NewExtraction),
    /// Replaces the edited data and resets `verified`.
    Edit {
        /// The whole data.
        data: Value,
    },
    /// Sets whether the data is verified.
    Verify {
        /// The new value.
        verified: bool,
    },
    /// Deletes the extraction.
    Delete,
}

/// The filter of a list of extractions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtractionFilter {
    /// The document that was read.
    pub document: DocumentId,
    /// The prompt revision that was run; none: any.
    pub prompt: Option<PromptRevId>,
}

impl Resource for Extraction {
    type Change = ExtractionChange;
    type Filter = ExtractionFilter;
    const KIND: &'static str = "extraction";
    const DELETE: ExtractionChange = ExtractionChange::Delete;
    const HAS_PARENT: bool = true;
    const CLEANUP: Cleanup = Cleanup::OpRows;

    common_functions!(ExtractionId);

    fn label(&self) -> &str {
        ""
    }

    fn parent(&self) -> Option<String> {
        Some(self.document.to_string())
    }

    fn list_row(&self) -> ListRow {
        ListRow {
            id: self.id.to_string(),
            terms: [term("of", &self.document), revision_term(&self.document, &self.prompt)].into(),
            parent: Some(self.document.to_string()),
            ..ListRow::default()
        }
    }

    fn parent_in(filter: &ExtractionFilter) -> Option<String> {
        Some(filter.document.to_string())
    }

    fn conditions(filter: &ExtractionFilter) -> Vec<Condition> {
        let term = match &filter.prompt {
            Some(prompt) => revision_term(&filter.document, prompt),
            None => term("of", &filter.document),
        };
        vec![Condition::AnyTerm(vec![term])]
    }

    fn apply(id: &ExtractionId, write: &Write<ExtractionChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |extraction: Self| {
            let result = OpResult::Extraction {
                id: extraction.id.clone(),
                document: extraction.document.clone(),
                prompt: extraction.prompt.clone(),
                data: extraction.current().clone(),
            };
            Ok(Plan { after: Some(extraction), result })
        };
        let changed = |extraction: Self| Self { version: extraction.version + 1, updated_at: write.at, ..extraction };
        match (&write.change, before) {
            (ExtractionChange::Create(new), None) => done(Self {
                id: id.clone(),
                org: write.org.clone(),
                document: new.document.clone(),
                prompt: new.prompt.clone(),
                schema: new.schema.clone(),
                model: new.model.clone(),
                original: new.data.clone(),
                edited: None,
                verified: false,
                verified_by: None,
                created_by: write.by.clone(),
                created_at: write.at,
                updated_at: write.at,
                version: 1,
            }),
            (ExtractionChange::Edit { data }, Some(extraction)) => {
                let edited = Self { edited: Some(data.clone()), verified: false, verified_by: None, ..extraction };
                done(changed(edited))
            }
            (ExtractionChange::Verify { verified }, Some(extraction)) => {
                let verified_by = verified.then(|| write.by.clone());
                done(changed(Self { verified: *verified, verified_by, ..extraction }))
            }
            (ExtractionChange::Delete, Some(_)) => Ok(Plan { after: None, result: OpResult::Deleted }),
            _ => Err(Self::not_found(id)),
        }
    }
}
