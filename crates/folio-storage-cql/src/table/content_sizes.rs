//! `content_sizes`: a row with the bytes of each text and journal, by the id of the document or thread, and of each page
//! image, by `DOCUMENT/BLOB`. The hash of the first id selects the partition, so that a partition of an organization with
//! a million contents has about 6 MB.

use folio_types::{OrgId, Result};
use futures::stream::{StreamExt as _, TryStreamExt as _};

use crate::session::Read;
use crate::table::{SHARDS, shard};
use crate::values::values;

table! { ContentSizes:
    put: write "INSERT INTO content_sizes (org, shard, id, bytes) VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
    remove: write "DELETE FROM content_sizes USING TIMESTAMP ? WHERE org = ? AND shard = ? AND id = ?",
    // The character "0" follows "/".
    remove_all: write "DELETE FROM content_sizes USING TIMESTAMP ? WHERE org = ? AND shard = ? AND id >= ? AND id < ?",
    bytes: read "SELECT bytes FROM content_sizes WHERE org = ? AND shard = ?",
}

impl ContentSizes {
    pub(crate) async fn put(&self, org: &OrgId, id: &str, bytes: u64, version: i64) -> Result<()> {
        self.cql.write(&self.put, values![org.as_str(), partition(id), id, bytes, version]).await
    }

    pub(crate) async fn remove(&self, org: &OrgId, id: &str, version: i64) -> Result<()> {
        self.cql.write(&self.remove, values![version, org.as_str(), partition(id), id]).await
    }

    /// Removes the row of an id and those of its blobs.
    pub(crate) async fn remove_all(&self, org: &OrgId, id: &str, version: i64) -> Result<()> {
        let end = format!("{id}0");
        self.cql.write(&self.remove_all, values![version, org.as_str(), partition(id), id, end.as_str()]).await
    }

    /// Returns the bytes of all contents of an organization. Reads all of their rows.
    pub(crate) async fn total(&self, org: &OrgId) -> Result<u64> {
        let sum = |shard: i32| async move {
            let rows: Vec<(i64,)> = self.cql.rows(&self.bytes, Read::Quorum, values![org.as_str(), shard]).await?;
            Ok::<_, folio_types::Error>(
                rows.into_iter().fold(0_u64, |sum, (bytes,)| sum.saturating_add(bytes.cast_unsigned())),
            )
        };
        let sums = futures::stream::iter(0..SHARDS).map(sum).buffer_unordered(SHARDS.unsigned_abs() as usize);
        sums.try_fold(0_u64, async |total, bytes| Ok(total.saturating_add(bytes))).await
    }
}

fn partition(id: &str) -> i32 {
    shard(id.split_once('/').map_or(id, |(content, _)| content))
}
