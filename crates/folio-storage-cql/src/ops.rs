//! Op rows and idempotency records.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::op::{IdempotencyRecord, OpKey, OpRow, OpState, Target};
use folio_types::{OrgId, Result, Timestamp};

use super::keyspace::Keyspace;
use super::session::{ConditionalResult, Read};
use super::table::{Part, SystemRow};
use super::values::micros;
use super::{idempotency, retry};
use folio_storage::OpStore;
use folio_storage::value::{OpData, OpDataIndexRow, decode, encode};

/// Name of the index of op rows' data in the table `system_rows`.
const DATA: &str = "op_data";

pub(crate) async fn row(
    keyspace: &Keyspace,
    org: &OrgId,
    target: &str,
    op: &str,
    consistency: Read,
) -> Result<Option<OpRow>> {
    let found = keyspace.tables.aggregates.row(org, target, (Part::Op, op), consistency).await?;
    found.map(|bytes| decode(&bytes)).transpose()
}

/// Returns an op row with its data.
pub(crate) async fn row_with_data(
    keyspace: &Keyspace,
    org: &OrgId,
    target: &str,
    op: &str,
    consistency: Read,
) -> Result<Option<OpRow>> {
    let Some(mut row) = self::row(keyspace, org, target, op, consistency).await? else { return Ok(None) };
    if let Some(version) = row.data_version() {
        let (aggregates, key) = (&keyspace.tables.aggregates, data_key(version));
        let mut stored = aggregates.row(org, target, (Part::Data, &key), consistency).await?;
        if stored.is_none() && matches!(consistency, Read::Quorum) {
            // The batch with the op row may still be on its way to the servers that answered.
            stored = aggregates.row(org, target, (Part::Data, &key), Read::Serial).await?;
        }
        if let Some(stored) = stored {
            let OpData(data) = decode(&stored)?;
            row.replace_data(data);
        }
    }
    Ok(Some(row))
}

/// Returns the key of the data of an op row.
pub(crate) fn data_key(version: u64) -> String {
    format!("{version:020}")
}

/// Inserts a row into the index of the clean-up. The caller writes the data afterwards, so that no data is missing in
/// the index.
pub(crate) async fn put_data_index(keyspace: &Keyspace, row: &OpDataIndexRow) -> Result<()> {
    let row = SystemRow { at: micros(row.at), key: data_index_key(row), value: encode(row)? };
    keyspace.tables.system_rows.put(DATA, row).await
}

async fn remove_data_index(keyspace: &Keyspace, row: &OpDataIndexRow) -> Result<()> {
    keyspace.tables.system_rows.remove(DATA, micros(row.at), &data_index_key(row)).await
}

fn data_index_key(row: &OpDataIndexRow) -> String {
    format!("{}/{}/{}/{}", row.org, row.id, data_key(row.version), row.op)
}

/// Inserts an op row as closed unless the op has a row; returns the row that is then stored.
pub(crate) async fn close(keyspace: &Keyspace, org: &OrgId, target: &str, row: OpRow) -> Result<OpRow> {
    let aggregates = &keyspace.tables.aggregates;
    let op = row.op.to_string();
    let value = encode(&row)?;
    for attempt in 0..retry::ATTEMPTS {
        let insert = aggregates.insert_if_absent(org, target, (Part::Op, &op), value.clone());
        match keyspace.commit(vec![insert]).await? {
            ConditionalResult::Applied => return Ok(row),
            ConditionalResult::Refused | ConditionalResult::Unknown(_) => {
                if let Some(stored) = row_with_data(keyspace, org, target, &op, Read::Serial).await? {
                    return Ok(stored);
                }
            }
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("an op row"))
}

/// Closes the op of a stale request, whose content is unknown to the caller.
pub(crate) async fn close_of_another(keyspace: &Keyspace, org: &OrgId, target: &str, op: OpKey) -> Result<()> {
    let closed = OpRow { op, digest: OpRow::unknown_digest(), state: OpState::Aborted, at: keyspace.now() };
    close(keyspace, org, target, closed).await.map(|_| ())
}

pub(crate) struct Ops(pub(crate) Arc<Keyspace>);

#[async_trait]
impl OpStore for Ops {
    async fn row(&self, org: &OrgId, target: &Target, op: &OpKey) -> Result<Option<OpRow>> {
        row_with_data(&self.0, org, &target.to_string(), &op.to_string(), Read::Serial).await
    }

    async fn close(&self, org: &OrgId, target: &Target, row: OpRow) -> Result<OpRow> {
        close(&self.0, org, &target.to_string(), row).await
    }

    async fn request(&self, org: &OrgId, op: &OpKey) -> Result<Option<IdempotencyRecord>> {
        idempotency::find(&self.0, org, op).await
    }

    async fn record_request(&self, org: &OrgId, op: &OpKey, record: IdempotencyRecord) -> Result<IdempotencyRecord> {
        idempotency::record_request(&self.0, org, op, record).await
    }

    async fn forget_requests(&self, before: Timestamp, limit: usize) -> Result<usize> {
        idempotency::forget(&self.0, before, limit).await
    }

    async fn indexed_data(&self, before: Timestamp, limit: usize) -> Result<Vec<OpDataIndexRow>> {
        let rows: Vec<(SystemRow, OpDataIndexRow)> = self.0.first_rows(DATA, before, limit).await?;
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    async fn remove_data(&self, rows: Vec<OpDataIndexRow>) -> Result<()> {
        for row in rows {
            let OpDataIndexRow { org, id, version, op, .. } = &row;
            // If the indexed write was refused, another op may have written the data of this version.
            let op_row = self::row(&self.0, org, id, &op.to_string(), Read::Serial).await;
            let op_row = self.0.unreadable.skip(format_args!("op row {org}/{id}/{op}"), op_row)?;
            let Some(op_row) = op_row else {
                // The data of an unreadable op row is kept.
                self.defer_data(row.clone(), OpDataIndexRow { at: self.0.now(), ..row.clone() }).await?;
                continue;
            };
            if op_row.and_then(|op_row| op_row.data_version()) == Some(*version) {
                let key = data_key(*version);
                let statement = self.0.tables.aggregates.remove_existing(org, id, (Part::Data, &key));
                if let ConditionalResult::Unknown(error) = self.0.commit(vec![statement]).await? {
                    return Err(error);
                }
            }
            remove_data_index(&self.0, &row).await?;
        }
        Ok(())
    }

    async fn defer_data(&self, before: OpDataIndexRow, after: OpDataIndexRow) -> Result<()> {
        put_data_index(&self.0, &after).await?;
        if micros(before.at) == micros(after.at) { Ok(()) } else { remove_data_index(&self.0, &before).await }
    }
}
