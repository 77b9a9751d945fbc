//! Op rows and idempotency records.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::op::{IdempotencyRecord, OpKey, OpRow, OpState, Target};
use folio_types::{OrgId, Result, Timestamp};

use super::keyspace::Keyspace;
use super::session::{ConditionalResult, Read};
use super::table::Part;
use super::{idempotency, retry};
use folio_storage::OpStore;
use folio_storage::value::{decode, encode};

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
                if let Some(stored) = self::row(keyspace, org, target, &op, Read::Serial).await? {
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
        row(&self.0, org, &target.to_string(), &op.to_string(), Read::Serial).await
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
}
