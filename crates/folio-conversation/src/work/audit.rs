//! Writing to the audit log.

use std::time::Duration;

use folio_types::audit::AuditEntry;
use folio_types::{Error, Reason};

use super::{Backoff, Work};

/// How often entries are sent before the conversation is stopped: whoever loads it anew finds them in the journal.
const TRIES: u32 = 8;
/// When those who waited for a conversation that was stopped may ask again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl Work {
    /// Writes entries to the audit log, and says whether they stand. Where they do not, the conversation stops.
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
                Ok(Err(error)) => tracing::warn!(thread = %self.thread, %error, "the audit log takes no entry"),
                Err(_) => tracing::warn!(thread = %self.thread, "the audit log did not answer in time"),
            }
            backoff.pause().await;
        }
        let message = "the audit log does not take what is written";
        self.give_up(Error::unavailable(Reason::StoreUnavailable, message).retry_after(ASK_AGAIN));
        false
    }
}
