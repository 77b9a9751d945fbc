//! Op rows and idempotency records.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::op::{IdempotencyRecord, OpKey, OpRow, Target};
use folio_types::{OrgId, Result, Timestamp};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::{OpData, OpDataIndexRow, RequestIndexRow};
use folio_storage::OpStore;

pub(crate) struct Ops(pub(crate) Arc<Engine>);

#[async_trait]
impl OpStore for Ops {
    async fn row(&self, org: &OrgId, target: &Target, op: &OpKey) -> Result<Option<OpRow>> {
        self.0.read(|view| row(view, org, target, op))
    }

    async fn close(&self, org: &OrgId, target: &Target, row: OpRow) -> Result<OpRow> {
        let (org, target) = (org.clone(), target.clone());
        self.0
            .write(move |transaction| match self::row(transaction, &org, &target, &row.op)? {
                Some(stored) => Ok(stored),
                None => {
                    transaction.put(Space::Records, keys::op(&org, &target, &row.op), &row)?;
                    Ok(row)
                }
            })
            .await
    }

    async fn request(&self, org: &OrgId, op: &OpKey) -> Result<Option<IdempotencyRecord>> {
        self.0.read(|view| view.read(Space::Records, &keys::idempotency(org, op)))
    }

    async fn record_request(&self, org: &OrgId, op: &OpKey, record: IdempotencyRecord) -> Result<IdempotencyRecord> {
        let (org, op) = (org.clone(), op.clone());
        self.0
            .write(move |transaction| {
                let key = keys::idempotency(&org, &op);
                match transaction.read::<IdempotencyRecord>(Space::Records, &key)? {
                    Some(stored) => Ok(stored),
                    None => put_request(transaction, &org, &op, &record).map(|()| record),
                }
            })
            .await
    }

    async fn forget_requests(&self, before: Timestamp, limit: usize) -> Result<usize> {
        let unreadable = self.0.unreadable().clone();
        self.0
            .write(move |transaction| {
                let range = Range::prefix(Space::System, keys::indexed_requests());
                let index_rows: Vec<RequestIndexRow> = transaction.readable(range, limit, &unreadable)?;
                let old: Vec<_> = index_rows.into_iter().take_while(|index_row| index_row.at < before).collect();
                for RequestIndexRow { org, op, at } in &old {
                    transaction.remove(Space::Records, keys::idempotency(org, op));
                    transaction.remove(Space::System, keys::indexed_request(*at, org, op));
                }
                Ok(old.len())
            })
            .await
    }

    async fn indexed_data(&self, before: Timestamp, limit: usize) -> Result<Vec<OpDataIndexRow>> {
        let range = Range::prefix(Space::System, keys::indexed_data());
        let rows: Vec<OpDataIndexRow> = self.0.scan_index(range, limit).await?;
        Ok(rows.into_iter().take_while(|row| row.at <= before).collect())
    }

    async fn remove_data(&self, rows: Vec<OpDataIndexRow>) -> Result<()> {
        self.0
            .write_lazily(move |transaction| {
                for row in &rows {
                    transaction.remove(Space::Records, keys::op_data_of(&row.org, &row.id, row.version));
                    transaction.remove(Space::System, keys::indexed_data_row(row));
                }
                Ok(())
            })
            .await
    }

    async fn defer_data(&self, before: OpDataIndexRow, after: OpDataIndexRow) -> Result<()> {
        self.0
            .write_lazily(move |transaction| {
                transaction.remove(Space::System, keys::indexed_data_row(&before));
                transaction.put(Space::System, keys::indexed_data_row(&after), &after)
            })
            .await
    }
}

/// Returns an op row with its data.
pub(crate) fn row(reads: &impl Reads, org: &OrgId, target: &Target, op: &OpKey) -> Result<Option<OpRow>> {
    let Some(mut row) = reads.read::<OpRow>(Space::Records, &keys::op(org, target, op))? else { return Ok(None) };
    if let Some(version) = row.data_version()
        && let Some(OpData(data)) = reads.read(Space::Records, &keys::op_data_of(org, target.id(), version))?
    {
        row.replace_data(data);
    }
    Ok(Some(row))
}

/// Stores the data of an op row, and the index row by which the clean-up finds it.
pub(crate) fn put_data(transaction: &mut Transaction<'_>, row: &OpDataIndexRow, data: &OpData) -> Result<()> {
    transaction.put(Space::Records, keys::op_data_of(&row.org, &row.id, row.version), data)?;
    transaction.put(Space::System, keys::indexed_data_row(row), row)
}

/// Stores an idempotency record, and the index row by which the clean-up finds it.
pub(crate) fn put_request(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    op: &OpKey,
    record: &IdempotencyRecord,
) -> Result<()> {
    transaction.put(Space::Records, keys::idempotency(org, op), record)?;
    let index_row = RequestIndexRow { org: org.clone(), op: op.clone(), at: record.at };
    transaction.put(Space::System, keys::indexed_request(record.at, org, op), &index_row)
}
