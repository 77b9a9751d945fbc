//! Documents: uploaded files. Their bytes and their text are stored apart from them.

use std::collections::{BTreeMap, BTreeSet};

use folio_types::op::{OpResult, Write};
use folio_types::{DocumentId, OrgId, Result, TagId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::resource::common_functions;
use crate::tag_set::{distinct, tag_terms};
use crate::{Cleanup, Condition, ListRow, Plan, Resource, folded};

/// A document without its bytes and its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// The id of the document.
    pub id: DocumentId,
    /// The organization of the document.
    pub org: OrgId,
    /// The file name that people see.
    pub name: String,
    /// The media type, detected from the content.
    pub media_type: String,
    /// Bytes of the file.
    pub size: u64,
    /// SHA-256 of the file in hexadecimal.
    pub sha256: String,
    /// Tags without duplicates, in the given order.
    pub tags: Vec<TagId>,
    /// Free metadata.
    pub metadata: BTreeMap<String, String>,
    /// The state of its text.
    pub state: TextState,
    /// Pages with text; 0 before the text is read.
    pub pages: u32,
    /// The user that uploaded it.
    pub created_by: UserId,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time of its last change, also of its text.
    pub updated_at: Timestamp,
    /// Grows with every change; a write expects it. The state of the text does not change it.
    pub version: u64,
}

/// The state of the text of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum TextState {
    /// The document is queued.
    Uploaded,
    /// The document is being read.
    Processing,
    /// The text is stored.
    Ready,
    /// The document has no text; with the reason.
    NoText(String),
    /// The text could not be read; with the reason.
    Failed(String),
}

impl TextState {
    /// Returns whether the state is final unless the document is read again.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Uploaded | Self::Processing)
    }
}

/// The state of a document's text, stored apart from the document: ingestion and people change different records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextRecord {
    /// The state.
    pub text: TextState,
    /// Pages of text.
    pub pages: u32,
    /// The generation of the stored pages that is valid; none: no pages, or a store that keeps one generation only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// Number of processing attempts since the last settled state.
    pub attempts: u32,
    /// Whether a program that is not installed would read more.
    pub lacks_program: bool,
    /// The time of this state.
    pub at: Timestamp,
}

/// Returns the record that follows `before` when ingestion reports a state. An attempt counts when
/// [`TextState::Processing`] is reported; a settled state resets the count.
pub fn text_record_of(
    before: Option<&TextRecord>,
    state: TextState,
    pages: u32,
    lacks_program: bool,
    at: Timestamp,
) -> TextRecord {
    let started = u32::from(state == TextState::Processing);
    let counted = before.filter(|before| !before.text.is_settled()).map_or(0, |before| before.attempts);
    let attempts = if state.is_settled() { 0 } else { counted.saturating_add(started) };
    TextRecord { text: state, pages, generation: None, attempts, lacks_program, at }
}

/// The fields of a document that people change; none: unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentPatch {
    /// The new name.
    pub name: Option<String>,
    /// The new set of tags.
    pub tags: Option<Vec<TagId>>,
    /// The new metadata, which replaces all keys.
    pub metadata: Option<BTreeMap<String, String>>,
}

/// A document whose bytes are stored already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDocument {
    /// The file name.
    pub name: String,
    /// The media type, detected from the content.
    pub media_type: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the bytes in hexadecimal.
    pub sha256: String,
    /// The tags of the document.
    pub tags: Vec<TagId>,
    /// The metadata of the document.
    pub metadata: BTreeMap<String, String>,
}

/// A change of one document. Tags must be live, else `NOT_FOUND`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentChange {
    /// Creates a document in state `uploaded`.
    Create(NewDocument),
    /// Changes the fields that the patch gives.
    Update(DocumentPatch),
    /// Deletes the document with its text and its extractions. The clean-up removes bytes and threads.
    Delete,
}

/// The filter of a list of documents: every given condition must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentFilter {
    /// A substring of the name, compared without regard to case.
    pub name_search: Option<String>,
    /// The document has all of these tags.
    pub all_tags: Vec<TagId>,
    /// The document has these metadata keys, each with a value that contains this text without regard to case.
    pub metadata: BTreeMap<String, String>,
}

impl Resource for Document {
    type Change = DocumentChange;
    type Filter = DocumentFilter;
    const KIND: &'static str = "document";
    const DELETE: DocumentChange = DocumentChange::Delete;
    const HAS_TEXT: bool = true;
    const CLEANUP: Cleanup = Cleanup::Dependents;

    common_functions!(DocumentId);

    fn label(&self) -> &str {
        &self.name
    }

    fn references(&self) -> BTreeSet<String> {
        self.tags.iter().map(ToString::to_string).collect()
    }

    fn with_text(self, text: &TextRecord) -> Self {
        let TextRecord { text, pages, at, .. } = text.clone();
        Self { state: text, pages, updated_at: self.updated_at.max(at), ..self }
    }

    fn list_row(&self) -> ListRow {
        ListRow {
            id: self.id.to_string(),
            name: self.name.clone(),
            terms: tag_terms(&self.tags).collect(),
            metadata: self.metadata.clone(),
            size_bytes: self.size,
            ..ListRow::default()
        }
    }

    fn conditions(filter: &DocumentFilter) -> Vec<Condition> {
        let mut conditions: Vec<_> = tag_terms(&filter.all_tags).map(|tag| Condition::AnyTerm(vec![tag])).collect();
        let contains = |(key, value): (&String, &String)| Condition::MetadataContains {
            key: key.clone(),
            substring: folded(value),
        };
        conditions.extend(filter.metadata.iter().map(contains));
        conditions.extend(Condition::name_search(filter.name_search.as_ref()));
        conditions
    }

    fn apply(id: &DocumentId, write: &Write<DocumentChange>, before: Option<Self>) -> Result<Plan<Self>> {
        let done = |document: Self| {
            let result = OpResult::Resource { id: document.id.to_string(), name: document.name.clone() };
            Ok(Plan { after: Some(document), result })
        };
        match (&write.change, before) {
            (DocumentChange::Create(new), None) => done(Self {
                id: id.clone(),
                org: write.org.clone(),
                name: new.name.clone(),
                media_type: new.media_type.clone(),
                size: new.size,
                sha256: new.sha256.clone(),
                tags: distinct(&new.tags),
                metadata: new.metadata.clone(),
                state: TextState::Uploaded,
                pages: 0,
                created_by: write.by.clone(),
                created_at: write.at,
                updated_at: write.at,
                version: 1,
            }),
            (DocumentChange::Update(patch), Some(before)) => {
                let mut document = before.clone();
                document.name.clone_from(patch.name.as_ref().unwrap_or(&before.name));
                document.metadata.clone_from(patch.metadata.as_ref().unwrap_or(&before.metadata));
                if let Some(tags) = &patch.tags {
                    document.tags = distinct(tags);
                }
                if document != before {
                    document.version += 1;
                    document.updated_at = write.at;
                }
                done(document)
            }
            (DocumentChange::Delete, Some(_)) => Ok(Plan { after: None, result: OpResult::Deleted }),
            _ => Err(Self::not_found(id)),
        }
    }
}
