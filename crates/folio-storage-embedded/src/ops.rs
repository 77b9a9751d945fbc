//! Op rows and idempotency records.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::op::{IdempotencyRecord, OpKey, OpRow, Target};
use folio_types::{OrgId, Result, Timestamp};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::{Range, Reads as _};
use super::transaction::Transaction;
use super::value::RequestIndexRow;
use folio_storage::OpStore;

pub(crate) struct Ops(pub(crate) Arc<Engine>);

#[async_trait]
impl OpStore for Ops {
    async fn row(&self, org: &OrgId, target: &Target, op: &OpKey) -> Result<Option<OpRow>> {
        self.0.read(|view| view.read(Space::Records, &keys::op(org, target, op)))
    }

    async fn close(&self, org: &OrgId, target: &Target, row: OpRow) -> Result<OpRow> {
        let key = keys::op(org, target, &row.op);
        self.0
            .write(move |transaction| match transaction.read::<OpRow>(Space::Records, &key)? {
                Some(stored) => Ok(stored),
                None => {
                    transaction.put(Space::Records, key, &row)?;
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
        self.0
            .write(move |transaction| {
                let index_rows: Vec<RequestIndexRow> =
                    transaction.values(Range::prefix(Space::System, keys::indexed_requests()), limit)?;
                let old: Vec<_> = index_rows.into_iter().take_while(|index_row| index_row.at < before).collect();
                for RequestIndexRow { org, op, at } in &old {
                    transaction.remove(Space::Records, keys::idempotency(org, op));
                    transaction.remove(Space::System, keys::indexed_request(*at, org, op));
                }
                Ok(old.len())
            })
            .await
    }
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
