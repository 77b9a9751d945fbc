//! The stored values of the adapters: one byte with the version of the format, then JSON.

use folio_credit::{Account, AccountEntry, LedgerRow};
use folio_history::journal::Entry;
use folio_history::thread::{OpenTurnRow, RequestRow, ThreadRecord};
use folio_resources::{ListRow, Member, TextRecord, decode_value, encode_value};
use folio_types::audit::AuditEntry;
use folio_types::op::{IdempotencyRecord, OpKey, OpRow};
use folio_types::{OrgId, Result, ThreadId, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::traits::UsageRecord;

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
}

/// Returns the stored bytes of a value.
pub fn encode<T: Stored>(value: &T) -> Result<Vec<u8>> {
    encode_value(T::KIND, T::VERSION, value)
}

/// Returns the value of stored bytes.
pub fn decode<T: Stored>(bytes: &[u8]) -> Result<T> {
    decode_value(T::KIND, T::VERSION, bytes, T::read)
}

/// The text of one page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageText {
    /// From 1.
    pub number: u32,
    /// The text.
    pub text: String,
}

/// The number of items in a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Count(pub u64);

/// A row that has no value: its key holds all its data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mark;

/// The id behind a name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NameRow {
    /// The id of the resource with this name.
    pub id: String,
}

/// A resource whose text is not settled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingMark {
    /// The tenant.
    pub org: OrgId,
    /// The id of the resource.
    pub id: String,
    /// Number of processing attempts.
    pub attempts: u32,
}

/// A deletion that waits for clean-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeletedMark {
    /// The tenant.
    pub org: OrgId,
    /// The id of the deleted resource.
    pub id: String,
    /// The time of the deletion.
    pub at: Timestamp,
}

/// A row of the system index of requests outside turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestMark {
    /// The tenant.
    pub org: OrgId,
    /// The request.
    pub op: OpKey,
    /// The time of the request.
    pub at: Timestamp,
}

/// A row of the system index of threads that expire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadMark {
    /// The tenant.
    pub org: OrgId,
    /// The thread.
    pub thread: ThreadId,
    /// The time of expiry.
    pub at: Timestamp,
}

/// A reference entry. Its key holds the referring resource and the op that wrote the entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The time at which the entry was written.
    pub at: Timestamp,
}

/// The last use of a token.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct TokenUse {
    /// The time.
    pub at: Timestamp,
}

macro_rules! stored {
    ($($kind:literal => $type:ty),+ $(,)?) => {
        $(impl Stored for $type { const KIND: &'static str = $kind; })+

        /// The kinds of all stored values.
        #[cfg(test)]
        pub(crate) const KINDS: &[&str] = &[$($kind,)+];
    };
}

stored! {
    "audit_entry" => AuditEntry,
    "token_use" => TokenUse,
    "member" => Member,
    "page_text" => PageText,
    "pending_text" => PendingMark,
    "deleted" => DeletedMark,
    "op_row" => OpRow,
    "idempotency_record" => IdempotencyRecord,
    "request_mark" => RequestMark,
    "thread" => ThreadRecord,
    "entry" => Entry,
    "request_row" => RequestRow,
    "thread_mark" => ThreadMark,
    "open_turn" => OpenTurnRow,
    "account" => Account,
    "account_entry" => AccountEntry,
    "ledger_row" => LedgerRow,
    "usage" => UsageRecord,
    "list_row" => ListRow,
    "name" => NameRow,
    "reference" => Reference,
    "text_record" => TextRecord,
    "count" => Count,
    "mark" => Mark,
}
