//! The index of open turns: a system index that only the sweep reads.

use async_trait::async_trait;
use folio_history::thread::OpenTurnRow;
use folio_types::Result;

/// Open turns of all organizations. [`crate::ThreadStore::append`] inserts the rows.
#[async_trait]
pub trait OpenTurnStore: Send + Sync {
    /// Removes rows. A row that the store moved to another time may stay; the next scan returns it. The caller has
    /// verified in each thread that the turn ended and that the header's epoch is not below the row's.
    async fn remove(&self, rows: &[OpenTurnRow]) -> Result<()>;

    /// Returns at most `limit` rows after `after` (None: from the start) in a fixed order.
    async fn scan(&self, after: Option<&OpenTurnRow>, limit: usize) -> Result<Vec<OpenTurnRow>>;

    /// Rewrites old rows, so that scans read few tombstones of removed rows. The sweep calls the function after each scan of the whole
    /// index; concurrent calls do no harm.
    async fn compact(&self) -> Result<()>;
}
