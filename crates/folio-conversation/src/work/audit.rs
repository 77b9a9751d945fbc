//! Writes entries to the audit log.

use std::time::Duration;

use folio_resources::audit::AuditEntry;
use folio_types::{Error, Reason};

use super::TaskContext;

/// Maximum attempts. Afterwards the conversation stops, and the node that loads it derives the entries from the
/// journal.
const TRIES: u32 = 8;
/// Retry delay of requests that wait for the stopped conversation.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl TaskContext {
    /// Returns true once the entries are stored. Returns false after too many attempts, and stops the conversation.
    pub(crate) async fn record(&self, entries: &[AuditEntry]) -> bool {
        if entries.is_empty() {
            return true;
        }
        self.hit_failpoint("audit", "before").await;
        if let Err(error) = self.retry(TRIES, || self.shared.dependencies.stores.audit.append(&self.org, entries)).await
        {
            tracing::warn!(thread = %self.thread, %error, "cannot store audit entries");
            let message = "audit entries cannot be stored; retry later";
            self.stop_conversation(Error::unavailable(Reason::StoreUnavailable, message).retry_after(RETRY_AFTER));
            return false;
        }
        self.hit_failpoint("audit", "after").await;
        true
    }
}
