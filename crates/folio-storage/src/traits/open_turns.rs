//! The index of open turns: a system index, read by the sweep only.

use async_trait::async_trait;
use folio_history::thread::OpenTurnRow;
use folio_types::Result;

/// Open turns of all organizations. Rows are inserted by the appends that open them: [`crate::ThreadStore::append`].
#[async_trait]
pub trait OpenTurnStore: Send + Sync {
    /// Removes a row; only by who read in the thread that the turn ended and that the header's epoch is not below the
    /// row's.
    async fn remove(&self, row: &OpenTurnRow) -> Result<()>;

    /// Rows after `after` (none: from the start) in a fixed order, at most `limit`.
    async fn scan(&self, after: Option<&OpenTurnRow>, limit: usize) -> Result<Vec<OpenTurnRow>>;
}
