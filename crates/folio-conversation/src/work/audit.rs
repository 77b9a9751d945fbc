//! Writes entries to the audit log.

use folio_resources::audit::AuditEntry;

use super::TaskContext;

/// Maximum attempts. Afterwards the conversation stops, and the node that loads it derives the entries from the
/// journal.
const ATTEMPTS_MAX: u32 = 8;

impl TaskContext {
    /// Returns true once the entries are stored. Returns false after too many attempts, and stops the conversation.
    pub(crate) async fn record(&self, entries: &[AuditEntry]) -> bool {
        if entries.is_empty() {
            return true;
        }
        self.hit_failpoint("audit", "before").await;
        if let Err(error) =
            self.retry(ATTEMPTS_MAX, || self.shared.dependencies.stores.audit.append(&self.org, entries)).await
        {
            tracing::warn!(thread = %self.thread, %error, "cannot store audit entries");
            self.stop_conversation("audit entries cannot be stored; retry later");
            return false;
        }
        self.hit_failpoint("audit", "after").await;
        true
    }
}
