//! Which target a request outside turns changes: a row in the request's own partition, inserted before the deciding write.
//!
//! The row holds while the op row at its target says that it happened, or while it may still come; once that one is
//! closed the row is dead and may be replaced. A row whose write has not come for [`STALE`] is closed by who needs to know:
//! nobody carries a request on.

use std::time::Duration;

use folio_types::op::{AskedRow, OpKey, OpRow, OpState, Target, Write};
use folio_types::{Code, Error, OrgId, Reason, Result, Timestamp};

use super::keyspace::Keyspace;
use super::session::{Sent, Strength};
use super::table::SystemRow;
use super::values::micros;
use super::{ops, retry};
use crate::planted::Bug;
use crate::value::{AskedMark, decode, encode};

const INDEX: &str = "asked";

/// How long what a request reserved is left alone although its deciding write has not come: longer than any write that is
/// still under way takes.
pub(crate) const STALE: Duration = Duration::from_secs(60);

/// What a row of a request is worth.
enum Worth {
    /// Its write happened.
    Done,
    /// Its write may still come.
    Open,
    /// Its write never will.
    Dead,
}

async fn worth(keyspace: &Keyspace, org: &OrgId, op: &OpKey, row: &AskedRow) -> Result<Worth> {
    if !row.target.has_op_rows() {
        // The record itself decides: the effects are in a thread's journal, or in the record of an outcome.
        return Ok(Worth::Done);
    }
    let found = ops::row(keyspace, org, &row.target.to_string(), &op.to_string(), Strength::Serial).await?;
    Ok(match found.map(|row| row.state) {
        Some(OpState::Done(_)) => Worth::Done,
        Some(OpState::Conflict | OpState::Aborted) => Worth::Dead,
        None => Worth::Open,
    })
}

/// What a request stands for, if its write happened.
pub(crate) async fn stands(keyspace: &Keyspace, org: &OrgId, op: &OpKey) -> Result<Option<AskedRow>> {
    let Keyspace { cql, tables, .. } = keyspace;
    let Some((value, _)) = tables.asked.get(cql, org, &op.to_string(), Strength::Serial).await? else {
        return Ok(None);
    };
    let row: AskedRow = decode(&value)?;
    Ok(match worth(keyspace, org, op, &row).await? {
        Worth::Done => Some(row),
        Worth::Open | Worth::Dead => None,
    })
}

/// Refuses with `REQUEST_ID_CONFLICT` where the request stands for something else. Changes nothing unless what it stood
/// for has not come for long.
pub(crate) async fn check<C>(keyspace: &Keyspace, target: &Target, write: &Write<C>) -> Result<()> {
    let OpKey::Request { .. } = &write.op else { return Ok(()) };
    if keyspace.has(Bug::RequestOnManyTargets) {
        return Ok(());
    }
    let Keyspace { cql, tables, .. } = keyspace;
    let op = write.op.to_string();
    let Some((value, at)) = tables.asked.get(cql, &write.org, &op, Strength::Quorum).await? else { return Ok(()) };
    let row: AskedRow = decode(&value)?;
    if row.target == *target && row.digest == write.digest {
        return Ok(());
    }
    let refused = match worth(keyspace, &write.org, &write.op, &row).await? {
        Worth::Done => true,
        Worth::Dead => false,
        Worth::Open if is_stale(keyspace, at) => {
            let closed =
                OpRow { op: write.op.clone(), digest: row.digest.clone(), state: OpState::Aborted, at: keyspace.now() };
            let stands = ops::close(keyspace, &write.org, &row.target.to_string(), closed).await?;
            matches!(stands.state, OpState::Done(_))
        }
        Worth::Open => true,
    };
    if refused { Err(other_request(&write.op)) } else { Ok(()) }
}

/// Inserts the row of a request, or replaces a dead one; done before the deciding write is sent.
pub(crate) async fn enter<C>(keyspace: &Keyspace, target: &Target, write: &Write<C>) -> Result<()> {
    let OpKey::Request { .. } = &write.op else { return Ok(()) };
    if keyspace.has(Bug::RequestOnManyTargets) {
        return Ok(());
    }
    let row = AskedRow { target: target.clone(), digest: write.digest.clone(), at: write.at };
    let stands = ask(keyspace, &write.org, &write.op, row).await?;
    if stands.target == *target && stands.digest == write.digest { Ok(()) } else { Err(other_request(&write.op)) }
}

/// Inserts what a request stands for unless a row of it holds; gives the row that stands then.
pub(crate) async fn ask(keyspace: &Keyspace, org: &OrgId, op: &OpKey, row: AskedRow) -> Result<AskedRow> {
    let Keyspace { cql, tables, .. } = keyspace;
    let name = op.to_string();
    let value = encode(&row)?;
    let mark = AskedMark { org: org.clone(), op: op.clone(), at: row.at };
    let system_row = SystemRow { at: micros(row.at), key: key(org, &name), value: encode(&mark)? };
    tables.system_rows.put(cql, INDEX, system_row).await?;
    for attempt in 0..retry::ATTEMPTS {
        let now = keyspace.now_micros();
        if let Sent::Applied = tables.asked.insert(cql, org, &name, value.clone(), now).await? {
            return Ok(row);
        }
        if let Some((stands, _)) = tables.asked.get(cql, org, &name, Strength::Serial).await? {
            let found: AskedRow = decode(&stands)?;
            let same = found.target == row.target && found.digest == row.digest;
            let over = keyspace.has(Bug::AskedOverwritten);
            if same || (!over && !matches!(worth(keyspace, org, op, &found).await?, Worth::Dead)) {
                return Ok(found);
            }
            if let Sent::Applied = tables.asked.replace(cql, org, &name, (stands, value.clone()), now).await? {
                return Ok(row);
            }
        }
        retry::pause(attempt, keyspace.random()).await;
    }
    Err(retry::contended("a request"))
}

/// Removes rows of requests made before `before`.
pub(crate) async fn forget(keyspace: &Keyspace, before: Timestamp, limit: usize) -> Result<usize> {
    let Keyspace { cql, tables, .. } = keyspace;
    let rows = tables.system_rows.first(cql, INDEX, Some(before), limit).await?;
    let mut forgotten = 0;
    for row in rows.into_iter().filter(|row| row.at < micros(before)) {
        let mark: AskedMark = decode(&row.value)?;
        let op = mark.op.to_string();
        // The request may have been asked again since, and stand for something newer.
        let found = tables.asked.get(cql, &mark.org, &op, Strength::Quorum).await?;
        let old = match found {
            Some((value, _)) => decode::<AskedRow>(&value)?.at < before,
            None => false,
        };
        if old && let Sent::Unknown(error) = tables.asked.remove(cql, &mark.org, &op).await? {
            return Err(error);
        }
        tables.system_rows.remove(cql, INDEX, row.at, &row.key).await?;
        forgotten += 1;
    }
    Ok(forgotten)
}

/// Whether a reservation has been there for longer than its deciding write can be under way.
pub(crate) fn is_stale(keyspace: &Keyspace, at_micros: i64) -> bool {
    let age = keyspace.now_micros().saturating_sub(at_micros);
    age > i64::try_from(STALE.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn other_request(op: &OpKey) -> Error {
    Error::new(
        Code::AlreadyExists,
        Reason::RequestIdConflict,
        format!("{op} was used for another request; a request id stands for one request only"),
    )
}

fn key(org: &OrgId, op: &str) -> String {
    format!("{org}/{op}")
}
