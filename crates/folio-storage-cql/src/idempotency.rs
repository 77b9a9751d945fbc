//! Idempotency records of requests outside turns: a row in the request's own partition, inserted before the deciding
//! write.
//!
//! [`EnteredRow`] evaluates a record. The effect of the request exists if the op row of the record's target states that the write was
//! executed.

use folio_resources::{EnteredRow, ResourceWrite, RowVerdict};
use folio_types::op::{IdempotencyRecord, OpKey, OpRow, OpState};
use folio_types::{Error, OrgId, Result, Timestamp};

use super::keyspace::Keyspace;
use super::session::{ConditionalResult, Read};
use super::table::SystemRow;
use super::values::micros;
use super::{ops, retry};
use folio_storage::value::{RequestIndexRow, decode, encode};

/// Name of the index of requests by time.
const INDEX: &str = "request";

/// A stored record with the time of its insertion in microseconds.
type Stored<'a> = (&'a IdempotencyRecord, i64);

/// Evaluates the stored record of a request for another request with the same id.
async fn verdict(keyspace: &Keyspace, org: &OrgId, op: &OpKey, (record, at): Stored<'_>) -> Result<RowVerdict> {
    let state = match record.target.has_op_rows() {
        true => ops::row(keyspace, org, record.target.id(), &op.to_string(), Read::Serial).await?,
        false => None,
    };
    // Without op rows, the record alone is authoritative: the effects are in a thread's journal, or in the record of an
    // outcome.
    let is_done = |row: &OpRow| matches!(row.state, OpState::Done(_));
    let has_effect = !record.target.has_op_rows() || state.as_ref().is_some_and(is_done);
    let entered = EnteredRow { op: op.clone(), age: keyspace.age(at), has_op_row: state.is_some(), has_effect };
    Ok(entered.verdict(false))
}

/// Returns the record of a request if its write was executed.
pub(crate) async fn find(keyspace: &Keyspace, org: &OrgId, op: &OpKey) -> Result<Option<IdempotencyRecord>> {
    let found = keyspace.tables.idempotency.get(org, &op.to_string(), Read::Serial).await?;
    let Some((value, at)) = found else { return Ok(None) };
    let row: IdempotencyRecord = decode(&value)?;
    let was_executed = verdict(keyspace, org, op, (&row, at)).await? == RowVerdict::Taken;
    Ok(was_executed.then_some(row))
}

/// Returns true if the request id of a write was used for another target or other content. Closes the op of that other write if it
/// is stale.
pub(crate) async fn is_taken(keyspace: &Keyspace, write: &ResourceWrite) -> Result<bool> {
    let OpKey::Request { .. } = &write.op else { return Ok(false) };
    let op = write.op.to_string();
    let found = keyspace.tables.idempotency.get(&write.org, &op, Read::Quorum).await?;
    let Some((value, at)) = found else { return Ok(false) };
    let row: IdempotencyRecord = decode(&value)?;
    if row.target == write.target() && row.digest == write.digest {
        return Ok(false);
    }
    Ok(match verdict(keyspace, &write.org, &write.op, (&row, at)).await? {
        RowVerdict::Claimed | RowVerdict::Taken | RowVerdict::Contended => true,
        RowVerdict::Replace => false,
        RowVerdict::Close => {
            let closed =
                OpRow { op: write.op.clone(), digest: row.digest.clone(), state: OpState::Aborted, at: keyspace.now() };
            let stored = ops::close(keyspace, &write.org, row.target.id(), closed).await?;
            matches!(stored.state, OpState::Done(_))
        }
    })
}

/// Returns true if an attempt of the same request has stored its record. Such an attempt may have sent a deciding write.
pub(crate) async fn is_entered(keyspace: &Keyspace, write: &ResourceWrite) -> Result<bool> {
    let OpKey::Request { .. } = &write.op else { return Ok(false) };
    let found = keyspace.tables.idempotency.get(&write.org, &write.op.to_string(), Read::Serial).await?;
    let Some((value, _)) = found else { return Ok(false) };
    let row: IdempotencyRecord = decode(&value)?;
    Ok(row.target == write.target() && row.digest == write.digest)
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

/// Inserts the record of a request unless a valid record is stored. Returns the record that is stored afterwards.
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
        if let Some((stored, at)) = tables.idempotency.get(org, &name, Read::Serial).await? {
            let found: IdempotencyRecord = decode(&stored)?;
            let same = found.target == row.target && found.digest == row.digest;
            if same || verdict(keyspace, org, op, (&found, at)).await? != RowVerdict::Replace {
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

/// Deletes the records that are older than `before`. Reads at most `limit` rows of the index, the oldest first, and returns the number
/// of deleted rows of the index.
pub(crate) async fn forget(keyspace: &Keyspace, before: Timestamp, limit: usize) -> Result<usize> {
    let tables = &keyspace.tables;
    let rows: Vec<(SystemRow, RequestIndexRow)> = keyspace.first_rows(INDEX, before, limit).await?;
    let mut forgotten = 0;
    for (row, index_row) in rows.into_iter().filter(|(row, _)| row.at < micros(before)) {
        let op = index_row.op.to_string();
        // A later repetition of the request may have stored a newer record, which is kept.
        let found = tables.idempotency.get(&index_row.org, &op, Read::Quorum).await?;
        let old = match found {
            Some((value, _)) => {
                let record = decode::<IdempotencyRecord>(&value);
                let record = keyspace.unreadable.skip(format_args!("request {}", row.key), record)?;
                let Some(record) = record else {
                    // The unreadable record is kept, and read again after the same time.
                    let at = keyspace.now();
                    let value = encode(&RequestIndexRow { at, ..index_row })?;
                    let later = SystemRow { at: micros(at), key: row.key.clone(), value };
                    tables.system_rows.put(INDEX, later).await?;
                    tables.system_rows.remove(INDEX, row.at, &row.key).await?;
                    forgotten += 1;
                    continue;
                };
                record.at < before
            }
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

fn key(org: &OrgId, op: &str) -> String {
    format!("{org}/{op}")
}
