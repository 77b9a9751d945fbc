//! Sizes of texts, page images and journals: a row for each of them.
//!
//! Rows are written without a condition, with a version as their timestamp: that of the text or of the thread, or the time
//! of an image in microseconds. A size is written before the write that it belongs to, so that no content is missing. The removal has the highest timestamp,
//! because ids are never used again.

use folio_types::{OrgId, Result};

use super::keyspace::Keyspace;

/// Higher than any version.
const REMOVED: i64 = i64::MAX / 2;

pub(crate) async fn put(keyspace: &Keyspace, org: &OrgId, id: &str, bytes: u64, version: u64) -> Result<()> {
    let (sizes, version) = (&keyspace.tables.content_sizes, version.cast_signed());
    match bytes {
        0 => sizes.remove(org, id, version).await,
        bytes => sizes.put(org, id, bytes, version).await,
    }
}

/// Removes the size of a content, and of the blobs that were derived from it.
pub(crate) async fn remove(keyspace: &Keyspace, org: &OrgId, id: &str) -> Result<()> {
    keyspace.tables.content_sizes.remove_all(org, id, REMOVED).await
}

pub(crate) async fn total(keyspace: &Keyspace, org: &OrgId) -> Result<u64> {
    keyspace.tables.content_sizes.total(org).await
}
