//! The index of open turns. The transaction of the append that opens a turn inserts its row.
//!
//! A row is removed without an fsync of its own. A row that reappears after a loss of power is harmless: the sweep
//! reads in the thread that the turn has ended.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::thread::OpenTurnRow;
use folio_types::Result;

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::Range;
use folio_storage::OpenTurnStore;

pub(crate) struct OpenTurns(pub(crate) Arc<Engine>);

#[async_trait]
impl OpenTurnStore for OpenTurns {
    async fn remove(&self, rows: &[OpenTurnRow]) -> Result<()> {
        let keys: Vec<_> = rows.iter().map(keys::open_turn).collect();
        self.0.remove_lazily(Space::System, keys).await
    }

    async fn scan(&self, after: Option<&OpenTurnRow>, limit: usize) -> Result<Vec<OpenTurnRow>> {
        let mut range = Range::prefix(Space::System, keys::open_turns());
        if let Some(after) = after {
            range = range.after(keys::open_turn(after));
        }
        self.0.scan_index(range, limit).await
    }

    async fn compact(&self) -> Result<()> {
        Ok(())
    }
}
