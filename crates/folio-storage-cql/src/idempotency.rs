//! Idempotency records of requests outside turns: a row in the request's own partition, inserted before the deciding
//! write.
//!
//! The record is valid while the op row of its target exists or may still be written. Once that op is closed, the
//! record is dead and may be replaced. No process recovers a request, so a conflicting request closes the op of a
//! record whose write has not happened for [`STALE_AFTER`].

use std::time::Duration;

use folio_resources::ResourceWrite;
use folio_types::op::{IdempotencyRecord, OpKey, OpRow, OpState};
use folio_types::{Error, OrgId, Result, Timestamp};

use super::keyspace::Keyspace;
use super::session::{ConditionalResult, ReadConsistency};
use super::table::SystemRow;
use super::values::micros;
use super::{ops, retry};
use folio_storage::value::{RequestIndexRow, decode, encode};

const INDEX: &str = "request";

/// Time for which the reservations of a request without a deciding write are kept. Longer than any write in progress
/// takes.
pub(crate) const STALE_AFTER: Duration = Duration::from_secs(60);

/// The status of a record, by the op row of its target.
enum RowStatus {
    Done,
    /// The write may still be executed.
    Open,
    /// The write will never be executed.
    Dead,
}

async fn status(keyspace: &Keyspace, org: &OrgId, op: &OpKey, row: &IdempotencyRecord) -> Result<RowStatus> {
    if !row.target.has_op_rows() {
        // The record alone is authoritative: the effects are in a thread's journal, or in the record of an outcome.
        return Ok(RowStatus::Done);
    }
    let found = ops::row(keyspace, org, row.target.id(), &op.to_string(), ReadConsistency::Serial).await?;
    Ok(match found.map(|row| row.state) {
        Some(OpState::Done(_)) => RowStatus::Done,
        Some(OpState::Conflict | OpState::Aborted) => RowStatus::Dead,
        None => RowStatus::Open,
    })
}

/// Returns the record of a request if its write was executed.
pub(crate) async fn find(keyspace: &Keyspace, org: &OrgId, op: &OpKey) -> Result<Option<IdempotencyRecord>> {
    let Some((value, _)) = keyspace.tables.idempotency.get(org, &op.to_string(), ReadConsistency::Serial).await? else {
        return Ok(None);
    };
    let row: IdempotencyRecord = decode(&value)?;
    Ok(match status(keyspace, org, op, &row).await? {
        RowStatus::Done => Some(row),
        RowStatus::Open | RowStatus::Dead => None,
    })
}

/// Returns whether the request of a write was used for another target or other content. If that other write has not
/// happened for [`STALE_AFTER`], closes its op.
pub(crate) async fn is_taken(keyspace: &Keyspace, write: &ResourceWrite) -> Result<bool> {
    let OpKey::Request { .. } = &write.op else { return Ok(false) };
    let op = write.op.to_string();
    let found = keyspace.tables.idempotency.get(&write.org, &op, ReadConsistency::Quorum).await?;
    let Some((value, at)) = found else { return Ok(false) };
    let row: IdempotencyRecord = decode(&value)?;
    if row.target == write.target() && row.digest == write.digest {
        return Ok(false);
    }
    Ok(match status(keyspace, &write.org, &write.op, &row).await? {
        RowStatus::Done => true,
        RowStatus::Dead => false,
        RowStatus::Open if is_stale(keyspace, at) => {
            let closed =
                OpRow { op: write.op.clone(), digest: row.digest.clone(), state: OpState::Aborted, at: keyspace.now() };
            let stored = ops::close(keyspace, &write.org, row.target.id(), closed).await?;
            matches!(stored.state, OpState::Done(_))
        }
        RowStatus::Open => true,
    })
}

/// Inserts the record of a request, or replaces a dead one. Fails with `REQUEST_ID_CONFLICT` if another target or other
/// content is recorded.
pub(crate) async fn enter(keyspace: &Keyspace, org: &OrgId, op: &OpKey, record: IdempotencyRecord) -> Result<()> {
    let stored = record_request(keyspace, org, op, record.clone()).await?;
    if stored.target == record.target && stored.digest == record.digest {
        Ok(())
    } else {
        Err(Error::request_id_conflict())
    }
}

/// Inserts the record of a request unless a valid record is stored; returns the record that is then stored.
pub(crate) async fn record_request(
    keyspace: &Keyspace,
    org: &OrgId,
    op: &OpKey,
    row: IdempotencyRecord,
) -> Result<IdempotencyRecord> {
    let tables = &keyspace.tables;
    let name = op.to_string();
    let value = encode(&row)?;
    let index_row = RequestIndexRow { org: org.clone(), op: op.clone(), at: row.at };
    let system_row = SystemRow { at: micros(row.at), key: key(org, &name), value: encode(&index_row)? };
    tables.system_rows.put(INDEX, system_row).await?;
    for attempt in 0..retry::ATTEMPTS {
        let now = keyspace.now_micros();
        if let ConditionalResult::Applied = tables.idempotency.insert(org, &name, value.clone(), now).await? {
            return Ok(row);
        }
        if let Some((stored, _)) = tables.idempotency.get(org, &name, ReadConsistency::Serial).await? {
            let found: IdempotencyRecord = decode(&stored)?;
            let same = found.target == row.target && found.digest == row.digest;
            if same || !matches!(status(keyspace, org, op, &found).await?, RowStatus::Dead) {
                return Ok(found);
            }
            if let ConditionalResult::Applied =
                tables.idempotency.replace(org, &name, (stored, value.clone()), now).await?
            {
                return Ok(row);
            }
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("a request"))
}

pub(crate) async fn forget(keyspace: &Keyspace, before: Timestamp, limit: usize) -> Result<usize> {
    let tables = &keyspace.tables;
    let rows = tables.system_rows.first(INDEX, Some(before), limit).await?;
    let mut forgotten = 0;
    for row in rows.into_iter().filter(|row| row.at < micros(before)) {
        let index_row: RequestIndexRow = decode(&row.value)?;
        let op = index_row.op.to_string();
        // The request may have been repeated since, which left a newer record.
        let found = tables.idempotency.get(&index_row.org, &op, ReadConsistency::Quorum).await?;
        let old = match found {
            Some((value, _)) => decode::<IdempotencyRecord>(&value)?.at < before,
            None => false,
        };
        if old && let ConditionalResult::Unknown(error) = tables.idempotency.remove(&index_row.org, &op).await? {
            return Err(error);
        }
        tables.system_rows.remove(INDEX, row.at, &row.key).await?;
        forgotten += 1;
    }
    Ok(forgotten)
}

/// Returns whether a reservation is older than any write in progress.
pub(crate) fn is_stale(keyspace: &Keyspace, at_micros: i64) -> bool {
    let age = keyspace.now_micros().saturating_sub(at_micros);
    age > i64::try_from(STALE_AFTER.as_micros()).unwrap_or(i64::MAX)
}

fn key(org: &OrgId, op: &str) -> String {
    format!("{org}/{op}")
}
