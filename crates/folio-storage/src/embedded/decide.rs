//! What every deciding write has in common: the op row, and what the write expects of its target.

use folio_types::op::{AskedRow, Decided, Expected, OpKey, OpResult, OpRow, OpState, Target, Write};
use folio_types::{Code, Error, OrgId, Reason, Result, Timestamp};

use super::keys::{self, Space};
use super::reads::Reads as _;
use super::transaction::Transaction;
use super::value::{AskedMark, Record};
use crate::planted::Bug;

/// An aggregate with a version.
pub(crate) trait Versioned {
    /// Its version.
    fn version(&self) -> u64;
}

macro_rules! versioned {
    ($($type:ty),+) => { $(impl Versioned for $type { fn version(&self) -> u64 { self.version } })+ };
}

versioned!(
    folio_types::document::Document,
    folio_types::schema::Schema,
    folio_types::prompt::Prompt,
    folio_types::tag::Tag,
    folio_types::extraction::Extraction
);

/// Runs one deciding write: its op row where one stands; `Moved` where the target is not as expected; else the change,
/// with the op row beside it.
pub(crate) fn decide<C, T: Versioned>(
    transaction: &mut Transaction<'_>,
    target: &Target,
    write: &Write<C>,
    record: Option<Record<T>>,
    change: impl FnOnce(&mut Transaction<'_>, Option<Record<T>>) -> Result<OpResult>,
) -> Result<Decided> {
    let key = keys::op(&write.org, target, &write.op);
    let plan = transaction.plan();
    if !plan.has(Bug::OpRowNoCondition)
        && let Some(row) = transaction.read::<OpRow>(Space::Records, &key)?
    {
        return if row.digest == write.digest { Ok(Decided::Row(row)) } else { Err(other_request()) };
    }
    let asked = match &write.op {
        OpKey::Request { .. } => Some(keys::asked(&write.org, &write.op)),
        OpKey::Call(_) => None,
    };
    if let Some(key) = &asked
        && let Some(row) = transaction.read::<AskedRow>(Space::Records, key)?
        && (row.target != *target || row.digest != write.digest)
        && !plan.has(Bug::RequestOnManyTargets)
    {
        return Err(other_request());
    }
    if !plan.has(Bug::ExpectedIgnored) && !as_expected(target, write.expected, record.as_ref())? {
        return Ok(Decided::Moved);
    }
    let result = change(transaction, record)?;
    let row = OpRow { op: write.op.clone(), digest: write.digest.clone(), state: OpState::Done(result), at: write.at };
    if !plan.has(Bug::OpRowMissing) {
        transaction.put(Space::Records, key, &row)?;
    }
    if let Some(key) = asked {
        let asked = AskedRow { target: target.clone(), digest: write.digest.clone(), at: write.at };
        put_asked(transaction, &write.org, &write.op, key, &asked)?;
    }
    Ok(Decided::Row(row))
}

/// Writes what a request stands for, and the mark by which it is forgotten in time.
pub(crate) fn put_asked(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    op: &OpKey,
    key: Vec<u8>,
    row: &AskedRow,
) -> Result<()> {
    transaction.put(Space::Records, key, row)?;
    let mark = AskedMark { org: org.clone(), op: op.clone(), at: row.at };
    transaction.put(Space::System, keys::asked_mark(row.at, org, op), &mark)
}

fn as_expected<T: Versioned>(target: &Target, expected: Expected, record: Option<&Record<T>>) -> Result<bool> {
    let version = match record {
        None => None,
        Some(Record::Live(value)) => Some(value.version()),
        Some(Record::Gone { version, .. }) => Some(*version),
    };
    match (expected, version) {
        (Expected::Absent, version) => Ok(version.is_none()),
        (Expected::Version(expected), Some(version)) => Ok(expected == version),
        (Expected::Version(_), None) => Err(gone(target)),
    }
}

fn other_request() -> Error {
    Error::new(
        Code::AlreadyExists,
        Reason::RequestIdConflict,
        "the request_id was used for another request; a request id stands for one request only",
    )
}

/// What a change of something that does not live is answered.
pub(crate) fn gone(target: &Target) -> Error {
    Error::not_found(target.kind(), target)
}

/// The tombstone of something that has this version.
pub(crate) fn tombstone<T>(transaction: &Transaction<'_>, version: u64, at: Timestamp) -> Record<T> {
    let reset = transaction.plan().has(Bug::TombstoneVersionReset);
    Record::Gone { version: if reset { 1 } else { version + 1 }, at }
}
