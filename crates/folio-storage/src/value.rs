//! Stored values: one byte that says the version of the format, then JSON.
//!
//! An older version stays readable for good (the golden files hold that); a newer one than this build knows is refused
//! with `STORED_FORMAT`, never guessed at.

use std::collections::BTreeMap;

use folio_credit::{Account, AccountEntry, LedgerRow};
use folio_history::journal::Entry;
use folio_history::thread::{OpenTurnRow, RequestRow, ThreadHeader};
use folio_types::access::{Member, Organization};
use folio_types::audit::AuditEntry;
use folio_types::document::{Document, TextState};
use folio_types::extraction::Extraction;
use folio_types::models::ModelSettings;
use folio_types::op::{AskedRow, OpKey, OpRow};
use folio_types::prompt::{Prompt, PromptRevision};
use folio_types::schema::{Schema, SchemaRevision};
use folio_types::tag::Tag;
use folio_types::token::{TokenId, TokenRecord};
use folio_types::{
    Code, DocumentId, Error, ExtractionId, OrgId, PromptRevId, Reason, Result, TagId, ThreadId, Timestamp, UserId,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::traits::UsageRecord;

/// What may be stored.
pub(crate) trait Stored: Serialize + DeserializeOwned {
    /// Its name in errors and golden files.
    const KIND: &'static str;
    /// The version that is written.
    const VERSION: u8 = 1;

    /// Reads the payload of a version that is not newer than [`Self::VERSION`].
    fn read(_version: u8, payload: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(payload)
    }
}

/// The bytes of a value.
pub(crate) fn encode<T: Stored>(value: &T) -> Result<Vec<u8>> {
    let mut bytes = vec![T::VERSION];
    serde_json::to_writer(&mut bytes, value)
        .map_err(|error| Error::internal(format!("a {} cannot be encoded: {error}", T::KIND)))?;
    Ok(bytes)
}

/// The value of some bytes.
pub(crate) fn decode<T: Stored>(bytes: &[u8]) -> Result<T> {
    let unreadable =
        |why: String| Error::new(Code::DataLoss, Reason::StoredFormat, format!("a stored {} {why}", T::KIND));
    match bytes.split_first() {
        None => Err(unreadable("is empty".to_owned())),
        Some((0, _)) => Err(unreadable("has no format version".to_owned())),
        Some((version, _)) if *version > T::VERSION => Err(unreadable(format!(
            "has format version {version}, this build reads up to {}: it was written by a newer one",
            T::VERSION
        ))),
        Some((version, payload)) => T::read(*version, payload).map_err(|error| {
            tracing::error!(
                kind = T::KIND,
                line = error.line(),
                column = error.column(),
                "a stored value is unreadable"
            );
            unreadable(format!("of format version {version} is unreadable"))
        }),
    }
}

/// An aggregate, or what is left of it. Its version outlives it, so that versions only grow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Record<T> {
    /// It lives.
    Live(T),
    /// The tombstone.
    Gone {
        /// The version that the deletion gave it.
        version: u64,
        /// When.
        at: Timestamp,
    },
}

impl<T> Record<T> {
    /// The aggregate, where it lives.
    pub(crate) fn live(self) -> Option<T> {
        match self {
            Self::Live(value) => Some(value),
            Self::Gone { .. } => None,
        }
    }
}

/// A thread, or what is left of it: the id is not given again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ThreadRecord {
    /// It lives.
    Live(Box<ThreadHeader>),
    /// The tombstone.
    Gone {
        /// The last epoch.
        epoch: u64,
        /// The last version.
        version: u64,
        /// The request that removed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<OpKey>,
    },
}

/// What a list needs to know of an item to find, filter and order it without reading it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ListRow {
    /// The item's id.
    pub(crate) id: String,
    /// Its name or title.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) name: String,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<TagId>,
    /// Its metadata.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<UserId>,
    /// Its documents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) documents: Vec<DocumentId>,
    /// Its profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<String>,
    /// The prompt that was run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompt: Option<PromptRevId>,
    /// Bytes of its file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) size: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
fn is_zero(size: &u64) -> bool {
    *size == 0
}

/// The text of one page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PageText {
    /// From 1.
    pub(crate) number: u32,
    /// The text.
    pub(crate) text: String,
}

/// How many items a list has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Count(pub(crate) u64);

/// A row whose key says it all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Mark;

/// The id behind a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct NameRow {
    /// Whose name it is.
    pub(crate) id: String,
}

/// The organization that was made first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct First {
    /// It.
    pub(crate) org: OrgId,
}

/// A document whose text is not settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PendingMark {
    /// The tenant.
    pub(crate) org: OrgId,
    /// The document.
    pub(crate) document: DocumentId,
    /// How often its processing began.
    pub(crate) attempts: u32,
}

/// A document that was deleted and is not cleaned up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DocumentMark {
    /// The tenant.
    pub(crate) org: OrgId,
    /// The document.
    pub(crate) document: DocumentId,
    /// Since when.
    pub(crate) at: Timestamp,
}

/// A row of the system index of requests outside turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AskedMark {
    /// The tenant.
    pub(crate) org: OrgId,
    /// The request.
    pub(crate) op: OpKey,
    /// When it was made.
    pub(crate) at: Timestamp,
}

/// An extraction that was deleted and whose op rows still hold data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExtractionMark {
    /// The tenant.
    pub(crate) org: OrgId,
    /// The extraction.
    pub(crate) extraction: ExtractionId,
    /// Since when.
    pub(crate) at: Timestamp,
}

/// A row of the system index of threads that go by themselves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ThreadMark {
    /// The tenant.
    pub(crate) org: OrgId,
    /// The thread.
    pub(crate) thread: ThreadId,
    /// When it goes.
    pub(crate) at: Timestamp,
}

/// An extraction that once hung on a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hung {
    /// It.
    pub(crate) extraction: ExtractionId,
}

/// That somebody refers to something: who, and by which op, its key says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reference {
    /// When it was entered.
    pub(crate) at: Timestamp,
}

/// What is known of a document's text, beside the document where its text changes on its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TextRecord {
    /// The state of the text.
    pub(crate) text: TextState,
    /// Pages of text.
    pub(crate) pages: u32,
    /// Which of the texts that were written counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) generation: Option<String>,
    /// How often its processing began.
    pub(crate) attempts: u32,
    /// Whether a program that is not installed would read more.
    pub(crate) lacks_program: bool,
    /// When that was found out.
    pub(crate) at: Timestamp,
}

/// When a token was last used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct TokenUse {
    /// When.
    pub(crate) at: Timestamp,
}

/// When a usage record with a key was stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct UsageMark {
    /// The record's time.
    pub(crate) at: Timestamp,
}

macro_rules! stored {
    ($($kind:literal => $type:ty),+ $(,)?) => {
        $(impl Stored for $type { const KIND: &'static str = $kind; })+

        /// Everything that is stored.
        #[cfg(test)]
        pub(crate) const KINDS: &[&str] = &[$($kind,)+];
    };
}

stored! {
    "organization" => Organization,
    "audit_entry" => AuditEntry,
    "first_organization" => First,
    "token" => TokenRecord,
    "token_id" => TokenId,
    "token_use" => TokenUse,
    "member" => Member,
    "document" => Record<Document>,
    "page_text" => PageText,
    "pending_text" => PendingMark,
    "deleted_document" => DocumentMark,
    "schema" => Record<Schema>,
    "schema_revision" => SchemaRevision,
    "prompt" => Record<Prompt>,
    "prompt_revision" => PromptRevision,
    "tag" => Record<Tag>,
    "extraction" => Record<Extraction>,
    "hung" => Hung,
    "deleted_extraction" => ExtractionMark,
    "op_row" => OpRow,
    "asked_row" => AskedRow,
    "asked_mark" => AskedMark,
    "thread" => ThreadRecord,
    "entry" => Entry,
    "request_row" => RequestRow,
    "thread_mark" => ThreadMark,
    "open_turn" => OpenTurnRow,
    "account" => Account,
    "account_entry" => AccountEntry,
    "ledger_row" => LedgerRow,
    "usage" => UsageRecord,
    "usage_mark" => UsageMark,
    "list_row" => ListRow,
    "name" => NameRow,
    "reference" => Reference,
    "text_record" => TextRecord,
    "count" => Count,
    "mark" => Mark,
    "model_settings" => ModelSettings,
}
