//! The index of open turns.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::thread::OpenTurnRow;
use folio_types::Result;

use super::keyspace::Keyspace;
use super::table::SystemRow;
use folio_storage::OpenTurnStore;
use folio_storage::value::{decode, encode};

const INDEX: &str = "open_turn";

pub(crate) struct OpenTurns(pub(crate) Arc<Keyspace>);

#[async_trait]
impl OpenTurnStore for OpenTurns {
    async fn remove(&self, rows: &[OpenTurnRow]) -> Result<()> {
        self.0.tables.system_rows.remove_all(INDEX, rows.iter().map(|row| (0, key(row)))).await
    }

    async fn scan(&self, after: Option<&OpenTurnRow>, limit: usize) -> Result<Vec<OpenTurnRow>> {
        let rows = self.0.tables.system_rows.after(INDEX, after.map(|row| (0, key(row))), limit).await?;
        rows.into_iter().map(|row| decode(&row.value)).collect()
    }
}

/// Stores a row and removes others in one write. The caller sends the append that opens the turn only after this
/// function returns.
pub(crate) async fn replace(keyspace: &Keyspace, row: &OpenTurnRow, removes: &[OpenTurnRow]) -> Result<()> {
    let system_row = SystemRow { at: 0, key: key(row), value: encode(row)? };
    let removes = removes.iter().map(|row| (0, key(row)));
    keyspace.tables.system_rows.replace(INDEX, (system_row, row.until), removes).await
}

fn key(row: &OpenTurnRow) -> String {
    format!("{}/{}/{:010}/{:020}", row.org, row.turn.thread, row.turn.number, row.epoch)
}
