//! `jobs`: one partition for each job. Static columns: the header and its fence. Rows by part and key: the rows of
//! batches, and the outcomes of items.
//!
//! Rows of a deleted job are deleted after its tombstone is committed.

use folio_history::thread::Fence;
use folio_types::{JobId, OrgId, Result, Timestamp};

use crate::session::{ConditionalResult, Read, Statement};
use crate::values::{limit, micros, values};

/// Parts of a job's partition.
pub(crate) const JOB_PARTS: [&str; 2] = ["batch", "outcome"];

table! { Jobs:
    header: read "SELECT live, header FROM jobs WHERE org = ? AND id = ? LIMIT 1",
    fence: read "SELECT live, epoch, version FROM jobs WHERE org = ? AND id = ? LIMIT 1",
    has_batch: read "SELECT live, value FROM jobs WHERE org = ? AND id = ? AND part = 'batch' AND key = ?",
    outcomes: read "SELECT live, value FROM jobs WHERE org = ? AND id = ? AND part = 'outcome' AND key > ? LIMIT ?",
    create: conditional "UPDATE jobs SET live = true, epoch = ?, version = ?, header = ? \
                         WHERE org = ? AND id = ? IF live = null",
    change: conditional "UPDATE jobs SET epoch = ?, version = ?, header = ? \
                         WHERE org = ? AND id = ? IF live = true AND epoch = ? AND version = ?",
    batch: conditional "INSERT INTO jobs (org, id, part, key, value) VALUES (?, ?, 'batch', ?, ?) IF NOT EXISTS",
    outcome: conditional "INSERT INTO jobs (org, id, part, key, value) VALUES (?, ?, 'outcome', ?, ?)",
    write_tombstone: conditional "UPDATE jobs SET live = false, header = ? \
                                  WHERE org = ? AND id = ? IF live = true AND epoch = ? AND version = ?",
    remove_rows: write "DELETE FROM jobs USING TIMESTAMP ? WHERE org = ? AND id = ? AND part = ?",
}

type Row = (Option<bool>, Option<Vec<u8>>);

impl Jobs {
    /// Returns the encoded record. None: the job was never created.
    pub(crate) async fn header(&self, org: &OrgId, id: &JobId, consistency: Read) -> Result<Option<Vec<u8>>> {
        let row: Option<Row> = self.cql.row(&self.header, consistency, values![org.as_str(), id.as_str()]).await?;
        Ok(row.and_then(|(live, header)| live.and(header)))
    }

    /// Returns the fence of a live job. Does not read the header.
    pub(crate) async fn fence(&self, org: &OrgId, id: &JobId) -> Result<Option<Fence>> {
        let row: Option<(Option<bool>, Option<i64>, Option<i64>)> =
            self.cql.row(&self.fence, Read::Quorum, values![org.as_str(), id.as_str()]).await?;
        Ok(match row {
            Some((Some(true), Some(epoch), Some(version))) => {
                Some(Fence { epoch: epoch.cast_unsigned(), version: version.cast_unsigned() })
            }
            _ => None,
        })
    }

    /// Returns whether the row of a batch is stored, read linearizably.
    pub(crate) async fn has_batch(&self, org: &OrgId, id: &JobId, batch: &str) -> Result<bool> {
        let values = values![org.as_str(), id.as_str(), batch];
        let row: Option<Row> = self.cql.row(&self.has_batch, Read::Serial, values).await?;
        Ok(row.is_some_and(|(_, value)| value.is_some()))
    }

    /// Returns at most `rows` outcomes of a live job after an item.
    pub(crate) async fn outcomes(&self, org: &OrgId, id: &JobId, after: u32, rows: usize) -> Result<Vec<Vec<u8>>> {
        let values = values![org.as_str(), id.as_str(), item_key(after), limit(rows)];
        let rows: Vec<Row> = self.cql.rows(&self.outcomes, Read::Quorum, values).await?;
        Ok(rows.into_iter().filter(|(live, _)| *live == Some(true)).filter_map(|(_, value)| value).collect())
    }

    /// Creates the job only if no job with this id ever existed.
    pub(crate) async fn create(
        &self,
        (org, id): (&OrgId, &JobId),
        to: Fence,
        header: Vec<u8>,
    ) -> Result<ConditionalResult> {
        let values = values![to.epoch, to.version, header, org.as_str(), id.as_str()];
        self.cql.conditional(&self.create, values).await
    }

    /// Checks the fence `from` and moves it to `to`.
    pub(crate) fn change(
        &self,
        (org, id): (&OrgId, &JobId),
        (from, to): (Fence, Fence),
        header: Vec<u8>,
    ) -> Statement<'_> {
        let values = values![to.epoch, to.version, header, org.as_str(), id.as_str(), from.epoch, from.version];
        (&self.change, values)
    }

    /// Inserts the row of a batch only if the row does not exist.
    pub(crate) fn batch(&self, (org, id): (&OrgId, &JobId), batch: &str, value: Vec<u8>) -> Statement<'_> {
        (&self.batch, values![org.as_str(), id.as_str(), batch, value])
    }

    /// Inserts an outcome. Allowed only in the batch of the fence.
    pub(crate) fn outcome(&self, (org, id): (&OrgId, &JobId), item: u32, value: Vec<u8>) -> Statement<'_> {
        (&self.outcome, values![org.as_str(), id.as_str(), item_key(item), value])
    }

    pub(crate) async fn write_tombstone(
        &self,
        (org, id): (&OrgId, &JobId),
        fence: Fence,
        header: Vec<u8>,
    ) -> Result<ConditionalResult> {
        let values = values![header, org.as_str(), id.as_str(), fence.epoch, fence.version];
        self.cql.conditional(&self.write_tombstone, values).await
    }

    /// Removes all rows of a part after the tombstone is committed. The partition gets no further writes, so the
    /// timestamp of the removal may be any later time, regardless of the clocks that wrote the rows.
    pub(crate) async fn remove_rows(&self, (org, id): (&OrgId, &JobId), part: &str, now: Timestamp) -> Result<()> {
        let at = micros(now).saturating_add(DAY_MICROSECONDS);
        self.cql.write(&self.remove_rows, values![at, org.as_str(), id.as_str(), part]).await
    }
}

const DAY_MICROSECONDS: i64 = 24 * 60 * 60 * 1_000_000;

fn item_key(item: u32) -> String {
    format!("{item:010}")
}
