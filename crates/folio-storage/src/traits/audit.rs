//! Audit logs.

use async_trait::async_trait;
use folio_types::audit::{AuditEntry, AuditPosition, KEY_BYTES};
use folio_types::{Error, OrgId, Reason, Result};

use crate::value::encode;

/// Bytes of a stored entry at most.
const ENTRY_BYTES: usize = 16 * 1024;

/// Audit logs: one for each organization, ordered by time and key. Nothing changes or removes an entry.
#[async_trait]
pub trait AuditStore: Send + Sync {
    /// Adds entries, in any order; one that stands already (the same time and key, and so the same content) changes nothing. It is
    /// answered once all of them stand. Where it fails some may, and it is sent again.
    ///
    /// Errors: `TOO_LARGE`: a key of no or of more than 512 bytes, an entry of more than 16 KiB; none is added then.
    async fn append(&self, org: &OrgId, entries: &[AuditEntry]) -> Result<()>;

    /// At most `limit` entries after `low` and before `high`, the oldest first, or the newest.
    async fn list(
        &self,
        org: &OrgId,
        low: &AuditPosition,
        high: &AuditPosition,
        newest_first: bool,
        limit: usize,
    ) -> Result<Vec<AuditEntry>>;
}

/// An entry as it is stored.
pub fn encoded(entry: &AuditEntry) -> Result<Vec<u8>> {
    let too_large = |what: &str| Err(Error::invalid(Reason::TooLarge, format!("{what} of the audit log is too large")));
    if entry.key.is_empty() || entry.key.len() > KEY_BYTES {
        return too_large("a key");
    }
    let bytes = encode(entry)?;
    if bytes.len() > ENTRY_BYTES { too_large("an entry") } else { Ok(bytes) }
}
