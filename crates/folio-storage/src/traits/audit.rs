//! Audit logs.

use async_trait::async_trait;
use folio_resources::audit::{AuditEntry, AuditPosition, KEY_BYTES};
use folio_types::{Error, OrgId, Reason, Result};

use crate::value::encode;

/// Maximum size of an encoded entry, in bytes.
const ENTRY_BYTES: usize = 16 * 1024;

/// Audit logs: one for each organization, ordered by time and key. Entries are removed only with their organization.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Adds entries, in any order. Idempotent: an entry whose time and key are stored changes nothing. Returns once all
    /// entries are durable. After an error some may be stored; the caller sends all of them again.
    ///
    /// Errors: `TOO_LARGE` if a key is empty or longer than 512 bytes, or an entry is larger than 16 KiB; then no entry
    /// is added.
    async fn append(&self, org: &OrgId, entries: &[AuditEntry]) -> Result<()>;

    /// Returns at most `limit` entries after `low` and before `high`, the oldest first or the newest first.
    async fn list(
        &self,
        org: &OrgId,
        low: &AuditPosition,
        high: &AuditPosition,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<AuditEntry>>;
}

pub fn encode_checked(entry: &AuditEntry) -> Result<Vec<u8>> {
    let too_large = |message| Err(Error::invalid(Reason::TooLarge, message));
    let length = entry.key.len();
    if length == 0 || length > KEY_BYTES {
        return too_large(format!("invalid key of an audit entry: expected 1 to {KEY_BYTES} bytes, got {length}"));
    }
    let bytes = encode(entry)?;
    if bytes.len() > ENTRY_BYTES {
        return too_large(format!("an audit entry of {} bytes exceeds the limit of {ENTRY_BYTES} bytes", bytes.len()));
    }
    Ok(bytes)
}
