//! The stored values of the adapters: one byte with the version of the format, then JSON.
//!
//! A process may read values of a newer build that have more fields. If a process of this build changes such a value, the
//! change keeps these fields ([`UnknownFields`]).

use std::collections::BTreeSet;

use folio_credit::{Account, AccountEntry, Budget, LedgerRow};
use folio_history::job::{ItemOutcome, JobPage, JobRecord, OpenJobRow};
use folio_history::journal::Entry;
use folio_history::thread::{Fence, OpenTurnRow, RequestRow, ThreadRecord};
use folio_resources::audit::AuditEntry;
use folio_resources::{
    CellPosition, EmbeddedImage, FollowedLink, Heading, ImageAnnotation, Link, ListRow, Member, RevisionNames, Session,
    Table, TextRecord, WordBoxes, decode_value, encode_value,
};
use folio_types::message::MessageImage;
use folio_types::op::{IdempotencyRecord, OpKey, OpRow};
use folio_types::{
    Digest, DocumentId, JobId, MessageImageId, OrgId, Result, ThreadId, Timestamp, UnknownFields, UserId, numbers,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::traits::{ChunkSet, HourSums, StoredSummary, UsageRecord};

mod links;
mod passages;

pub use links::{DocumentLink, DocumentLinkKey, LinkFollower, LinkedDocument, LinkingDocument, MissingLinkRow};
pub use passages::{
    LastIngestion, PassageBucket, PassageGeneration, PassageHead, ServingSpace, StoredPassage, StoredSegment,
    StoredVector,
};

/// A value that an adapter can store.
pub trait Stored: Serialize + DeserializeOwned {
    /// The name of the kind in errors and golden files.
    const KIND: &'static str;
    /// The format version of new values.
    const VERSION: u8 = 1;

    /// Reads the payload of a version that is not newer than [`Self::VERSION`].
    fn read(_version: u8, payload: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(payload)
    }

    /// Returns the unknown fields of a value that was decoded. None for a kind whose values are never changed.
    fn unknown(&self) -> Option<&UnknownFields> {
        None
    }

    fn unknown_mut(&mut self) -> Option<&mut UnknownFields> {
        None
    }
}

/// Returns the format version, followed by the JSON of the value and its unknown fields.
pub fn encode<T: Stored>(value: &T) -> Result<Vec<u8>> {
    let encoded = encode_value(T::KIND, T::VERSION, value)?;
    value.unknown().unwrap_or(UnknownFields::NONE).add_to(encoded)
}

pub fn decode<T: Stored>(bytes: &[u8]) -> Result<T> {
    let mut value: T = decode_value(T::KIND, T::VERSION, bytes, T::read)?;
    if value.unknown().is_some() {
        let unknown = UnknownFields::between(bytes, &encode_value(T::KIND, T::VERSION, &value)?)?;
        if let Some(stored) = value.unknown_mut() {
            *stored = unknown;
        }
    }
    Ok(value)
}

/// The boxes of the words of a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageBoxes {
    /// Page numbers start at 1.
    pub number: u32,
    pub boxes: WordBoxes,
}

/// The headings of a page that has any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageHeadings {
    /// Page numbers start at 1.
    pub number: u32,
    pub headings: Vec<Heading>,
}

/// The tables, links and images of a page that has any.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageElements {
    /// Page numbers start at 1.
    pub number: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<EmbeddedImage>,
}

/// The part of the text of a page that is not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextGap {
    /// The text beyond a limit.
    Cut,
    /// The whole text. The stored text is empty or a note that states the reason.
    Missing,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageText {
    /// Page numbers start at 1.
    pub number: u32,
    pub text: String,
    /// None: the text is complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<TextGap>,
    /// The position of the first cell of the table in the text of a sheet. None: the page is no sheet, or the position is
    /// unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cell: Option<CellPosition>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Count(pub u64);

/// The numbers of the stored revisions of a resource, oldest first. They follow from the revisions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisionNumbers {
    pub numbers: Vec<u32>,
}

/// The value of a row whose key contains all its data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Empty;

/// The value of a row whose key is a unique name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NameRow {
    pub id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingTextRow {
    pub org: OrgId,
    pub id: String,
    /// Number of attempts to read the text.
    pub attempts: u32,
}

/// A row of the system index of the deletions of a kind of resources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletionRow {
    pub org: OrgId,
    /// The id of the resource.
    pub id: String,
    /// The time of the write that deletes the resource.
    pub at: Timestamp,
}

/// A row of the system index of requests outside turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestIndexRow {
    pub org: OrgId,
    pub op: OpKey,
    pub at: Timestamp,
}

/// The data of the result of an op, stored with the op row under the version of the target after the op.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpData(pub Value);

/// A row of the system index of the data of op rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpDataIndexRow {
    pub org: OrgId,
    /// The id of the target.
    pub id: String,
    pub version: u64,
    pub op: OpKey,
    /// The time from which the data is kept for a day: that of the write, or a later one.
    pub at: Timestamp,
    /// True if the turn of the op had ended at `at`.
    pub has_ended: bool,
}

/// A row of the system index of threads that expire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadExpiryRow {
    pub org: OrgId,
    pub thread: ThreadId,
    pub at: Timestamp,
}

/// A row of the system index of jobs that expire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobExpiryRow {
    pub org: OrgId,
    pub job: JobId,
    pub at: Timestamp,
}

/// A reference entry. Its key contains the referring resource and the op that wrote the entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    pub at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TokenUse {
    pub at: Timestamp,
}

/// An organization that a user joined.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UserOrganization {
    pub org: OrgId,
}

/// The vector of a text that a model has computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CachedVector {
    /// The digest of the text and of the identity of its vector space.
    pub digest: String,
    /// The document whose passage the text is. None: the text belongs to no document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<DocumentId>,
    #[serde(with = "numbers")]
    pub vector: Vec<f32>,
}

/// A slot of the cache of vectors that a vector of a document has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedVectorSlot {
    pub slot: u16,
}

/// An image that a user uploaded for messages. Its bytes are a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageImageRow {
    pub image: MessageImage,
    /// Digest of the uploaded file, which detects another file with the same request id.
    pub digest: Digest,
    /// The user that uploaded the image, and may send it.
    pub user: UserId,
    /// The threads with a message that contains the image.
    pub threads: BTreeSet<ThreadId>,
    /// True while the image is removed. No thread can contain it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_removed: bool,
    #[serde(skip)]
    pub unknown: UnknownFields,
}

/// An image that a message of a thread contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadImage {
    pub image: MessageImageId,
}

/// The node that has the index of passages of an organization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexHolder {
    /// The address of the node, which remains the same when the node restarts.
    pub address: String,
    /// Increases with each change of the node, and with each rebuild.
    pub term: u64,
    /// True: the index contains every document that was written to it or to the index of a former holder.
    pub is_complete: bool,
}

/// The newest attempt of a job that fills the row of a document in the table of a stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowFill {
    pub job: JobId,
    /// The epoch of the job.
    pub epoch: u64,
    /// Number of the attempt of the item, from 1.
    pub attempt: u32,
}

/// The time of the last late record of an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LateUsage {
    pub at: Timestamp,
}

/// Implements [`Stored`] for records that are a header or a tombstone.
macro_rules! stored_record {
    ($($kind:literal => $type:ty,)+) => {$(
        impl Stored for $type {
            const KIND: &'static str = $kind;

            fn unknown(&self) -> Option<&UnknownFields> {
                match self {
                    Self::Live(header) => Some(&header.unknown),
                    Self::Tombstone { .. } => None,
                }
            }

            fn unknown_mut(&mut self) -> Option<&mut UnknownFields> {
                match self {
                    Self::Live(header) => Some(&mut header.unknown),
                    Self::Tombstone { .. } => None,
                }
            }
        }
    )+};
}

stored_record! {
    "thread" => ThreadRecord,
    "job" => JobRecord,
}

/// Implements [`Stored`]. A process changes values of a kind in `changed`: it reads a value and writes it with other
/// fields. All fields of a value of a kind in `written_whole` are derived from something else than the stored value.
macro_rules! stored {
    (
        changed { $($changed:literal => $changed_type:ty,)+ }
        written_whole { $($kind:literal => $type:ty,)+ }
    ) => {
        $(impl Stored for $changed_type {
            const KIND: &'static str = $changed;

            fn unknown(&self) -> Option<&UnknownFields> {
                Some(&self.unknown)
            }

            fn unknown_mut(&mut self) -> Option<&mut UnknownFields> {
                Some(&mut self.unknown)
            }
        })+

        $(impl Stored for $type { const KIND: &'static str = $kind; })+

        /// All kinds. True: processes change values of the kind.
        #[cfg(test)]
        pub(crate) const KINDS: &[(&str, bool)] = &[("thread", true), ("job", true), $(($changed, true),)+ $(($kind, false),)+];
    };
}

stored! {
    changed {
        "member" => Member,
        "account" => Account,
        "budget" => Budget,
        "ledger_row" => LedgerRow,
        "text_record" => TextRecord,
        "revision_names" => RevisionNames,
        "chunk_set" => ChunkSet,
        "message_image" => MessageImageRow,
    }
    written_whole {
        "audit_entry" => AuditEntry,
        "token_use" => TokenUse,
        "session" => Session,
        "user_organization" => UserOrganization,
        "page_text" => PageText,
        "page_boxes" => PageBoxes,
        "page_headings" => PageHeadings,
        "page_elements" => PageElements,
        "pending_text" => PendingTextRow,
        "deleted" => DeletionRow,
        // The removal of its content also removes unknown fields, which may contain content.
        "op_row" => OpRow,
        "idempotency_record" => IdempotencyRecord,
        "request_index_row" => RequestIndexRow,
        "op_data" => OpData,
        "revision_numbers" => RevisionNumbers,
        "op_data_index_row" => OpDataIndexRow,
        "entry" => Entry,
        "request_row" => RequestRow,
        "thread_expiry" => ThreadExpiryRow,
        "open_turn" => OpenTurnRow,
        "open_job" => OpenJobRow,
        "job_expiry" => JobExpiryRow,
        "job_fence" => Fence,
        "job_page" => JobPage,
        "item_outcome" => ItemOutcome,
        "account_entry" => AccountEntry,
        "usage" => UsageRecord,
        "usage_sums" => HourSums,
        "usage_late" => LateUsage,
        "cached_vector" => CachedVector,
        "cached_vector_slot" => CachedVectorSlot,
        "document_link" => DocumentLink,
        "document_link_key" => DocumentLinkKey,
        "linked_document" => LinkedDocument,
        "linking_document" => LinkingDocument,
        "missing_link" => MissingLinkRow,
        "followed_link" => FollowedLink,
        "link_follower" => LinkFollower,
        "index_holder" => IndexHolder,
        "row_fill" => RowFill,
        "passage" => StoredPassage,
        // The whole value is derived from the text, and a conditional write compares it.
        "passage_head" => PassageHead,
        "passage_generation" => PassageGeneration,
        "passage_bucket" => PassageBucket,
        "serving_space" => ServingSpace,
        "last_ingestion" => LastIngestion,
        "summary" => StoredSummary,
        "thread_image" => ThreadImage,
        "image_annotation" => ImageAnnotation,
        "list_row" => ListRow,
        "name" => NameRow,
        "reference" => Reference,
        "count" => Count,
        "empty" => Empty,
    }
}
