//! Stored links between documents: see [`crate::LinkStore`].

use folio_resources::LinkKey;
use folio_types::{DocumentId, Timestamp};
use serde::{Deserialize, Serialize};

/// A target that a document refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentLink {
    /// The number of the page with the first reference, from 1.
    pub page: u32,
    /// The linked text. Empty: the reference is a part of the text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub anchor: String,
    pub target: String,
    /// The keys of the target, the most exact first. The first identifies the target.
    pub keys: Vec<LinkKey>,
    /// The time at which the document was first found to refer to the target.
    pub since: Timestamp,
}

/// A key under which targets find a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentLinkKey {
    pub key: LinkKey,
}

/// A document with a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkedDocument {
    pub document: DocumentId,
}

/// A document that refers to a key, with the target that contains the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkingDocument {
    pub document: DocumentId,
    pub target: String,
    /// See [`DocumentLink::keys`].
    pub keys: Vec<LinkKey>,
    /// See [`DocumentLink::since`].
    pub since: Timestamp,
}

/// A target without a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingLinkRow {
    /// The target as the document with the oldest reference contains it.
    pub target: String,
    /// See [`DocumentLink::keys`].
    pub keys: Vec<LinkKey>,
    /// The time of the oldest reference.
    pub since: Timestamp,
}

/// A document whose ingestion followed a link to another document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkFollower {
    pub root: DocumentId,
}
