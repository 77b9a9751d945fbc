//! Writes entries to the audit log.

use std::time::Duration;

use folio_types::audit::AuditEntry;
use folio_types::{Error, Reason};

use super::{Backoff, Work};

/// Maximum attempts. Afterwards the conversation stops, and the node that loads it derives the entries from the
/// journal.
const TRIES: u32 = 8;
/// Retry delay of requests that wait for the stopped conversation.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl Work {
    /// Returns true once the entries are stored. Returns false after too many attempts, and stops the conversation.
    pub(crate) async fn record(&self, entries: &[AuditEntry]) -> bool {
        if entries.is_empty() {
            return true;
        }
        self.point("audit", "before").await;
        let mut backoff = Backoff::new(&self.shared);
        for _ in 0..TRIES {
            let sent = self.shared.stores().audit.append(&self.org, entries);
            match tokio::time::timeout(self.shared.options.store_timeout, sent).await {
                Ok(Ok(())) => {
                    self.point("audit", "after").await;
                    return true;
                }
                Ok(Err(error)) => tracing::warn!(thread = %self.thread, %error, "the audit log refused entries"),
                Err(_) => tracing::warn!(thread = %self.thread, "the audit log did not answer in time"),
            }
            backoff.pause().await;
        }
        let message = "the audit log refuses entries";
        self.stop_conversation(Error::unavailable(Reason::StoreUnavailable, message).retry_after(ASK_AGAIN));
        false
    }
}
