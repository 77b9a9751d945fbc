//! The stored values of the adapters: one byte with the version of the format, then JSON.

use folio_credit::{Account, AccountEntry, LedgerRow};
use folio_history::journal::Entry;
use folio_history::thread::{OpenTurnRow, RequestRow, ThreadRecord};
use folio_resources::audit::AuditEntry;
use folio_resources::{ListRow, Member, TextRecord, decode_value, encode_value};
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

/// Returns the format version, followed by the JSON of the value.
pub fn encode<T: Stored>(value: &T) -> Result<Vec<u8>> {
    encode_value(T::KIND, T::VERSION, value)
}

pub fn decode<T: Stored>(bytes: &[u8]) -> Result<T> {
    decode_value(T::KIND, T::VERSION, bytes, T::read)
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PageText {
    /// Page numbers start at 1.
    pub number: u32,
    pub text: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Count(pub u64);

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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeletionRow {
    pub org: OrgId,
    pub id: String,
    pub at: Timestamp,
}

/// A row of the system index of requests outside turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestIndexRow {
    pub org: OrgId,
    pub op: OpKey,
    pub at: Timestamp,
}

/// A row of the system index of threads that expire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadExpiryRow {
    pub org: OrgId,
    pub thread: ThreadId,
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

macro_rules! stored {
    ($($kind:literal => $type:ty),+ $(,)?) => {
        $(impl Stored for $type { const KIND: &'static str = $kind; })+

        #[cfg(test)]
        pub(crate) const KINDS: &[&str] = &[$($kind,)+];
    };
}

stored! {
    "audit_entry" => AuditEntry,
    "token_use" => TokenUse,
    "member" => Member,
    "page_text" => PageText,
    "pending_text" => PendingTextRow,
    "deleted" => DeletionRow,
    "op_row" => OpRow,
    "idempotency_record" => IdempotencyRecord,
    "request_index_row" => RequestIndexRow,
    "thread" => ThreadRecord,
    "entry" => Entry,
    "request_row" => RequestRow,
    "thread_expiry" => ThreadExpiryRow,
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
    "empty" => Empty,
}
