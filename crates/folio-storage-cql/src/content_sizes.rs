//! Sizes of texts and journals: a row of the catalogue for each of them, in a list of its own.
//!
//! Like all rows of the catalogue they are written without a condition, with a version as their timestamp: that of the
//! text or of the thread. A size is written before the write that it belongs to, so that no content is missing. The
//! removal has the highest timestamp, because ids are never used again.

use folio_resources::ListRow;
use folio_types::{OrgId, Result};

use super::catalogue;
use super::keyspace::Keyspace;
use super::table::Position;
use folio_storage::value::encode;

/// The list of the sizes. No kind has this name.
const LIST: &str = "content_size";
/// Higher than any version.
const REMOVED: i64 = i64::MAX / 2;

pub(crate) async fn put(keyspace: &Keyspace, org: &OrgId, id: &str, bytes: u64, version: u64) -> Result<()> {
    let value = match bytes {
        0 => None,
        size_bytes => Some(encode(&ListRow { id: id.to_owned(), size_bytes, ..ListRow::default() })?),
    };
    change(keyspace, org, id, value, version.cast_signed()).await
}

pub(crate) async fn remove(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<()> {
    change(keyspace, org, id, None, REMOVED).await
}

async fn change(keyspace: &Keyspace, org: &OrgId, id: &str, value: Option<Vec<u8>>, version: i64) -> Result<()> {
    let position = Position { sort_key: String::new(), at: 0, id: id.to_owned() };
    keyspace.tables.catalogue.change((org, LIST), [(catalogue::ALL.to_owned(), position, value)], version).await
}

pub(crate) async fn total(keyspace: &Keyspace, org: &OrgId) -> Result<u64> {
    let mut sum = 0_u64;
    catalogue::for_each_row(keyspace, org, LIST, |row| sum = sum.saturating_add(row.size_bytes)).await?;
    Ok(sum)
}
