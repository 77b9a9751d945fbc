//! Documents.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::{DocumentId, OrgId, TagId, UserId};

/// A document without its bytes and its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Its id.
    pub id: DocumentId,
    /// Its organization.
    pub org: OrgId,
    /// The file name that people see.
    pub name: String,
    /// What the content is, as sniffed.
    pub media_type: String,
    /// Bytes of the file.
    pub size: u64,
    /// SHA-256 of the file in hexadecimal.
    pub sha256: String,
    /// Tags, without doubles, in the order given.
    pub tags: Vec<TagId>,
    /// Free metadata.
    pub metadata: BTreeMap<String, String>,
    /// Where its text is.
    pub state: TextState,
    /// Pages with text; 0 while there is none.
    pub pages: u32,
    /// Who uploaded it.
    pub created_by: UserId,
    /// When.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Grows with every change; what a write expects.
    pub version: u64,
}

/// How far the text of a document is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum TextState {
    /// Waiting to be processed.
    Uploaded,
    /// Being processed.
    Processing,
    /// Its text is there.
    Ready,
    /// It has no text, and why.
    NoText(String),
    /// Its text could not be read, and why.
    Failed(String),
}

impl TextState {
    /// Whether nothing more is going to happen by itself.
    pub fn is_settled(&self) -> bool {
        !matches!(self, Self::Uploaded | Self::Processing)
    }
}

/// What to change of a document; what is none stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentPatch {
    /// The new name.
    pub name: Option<String>,
    /// All its tags from now on.
    pub tags: Option<Vec<TagId>>,
    /// All its metadata from now on.
    pub metadata: Option<BTreeMap<String, String>>,
}
