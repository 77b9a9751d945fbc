//! The keys of all rows; the module doc of the crate lists them.
//!
//! A key is text: parts joined by `/`. Only the last part may contain a slash; ids, kinds and numbers never contain
//! one.

use folio_history::thread::OpenTurnRow;
use folio_resources::audit::AuditPosition;
use folio_types::op::{OpKey, Target};
use folio_types::{BlockId, OrgId, RequestId, ThreadId, Timestamp};

use folio_storage::TextWait;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Space {
    Records,
    Threads,
    Text,
    /// System indexes: their keys do not begin with the organization, and no request reads them.
    System,
}

fn key(parts: &[&str]) -> Vec<u8> {
    parts.join("/").into_bytes()
}

fn prefix(parts: &[&str]) -> Vec<u8> {
    let mut bytes = key(parts);
    bytes.push(b'/');
    bytes
}

/// Returns a text whose order is the order of time, with a precision of microseconds.
pub(crate) fn instant(at: Timestamp) -> String {
    sorted(at.as_microsecond())
}

fn sorted(micros: i64) -> String {
    format!("{:016x}", micros.cast_unsigned() ^ (1 << 63))
}

/// Returns the first key after all keys that begin with `prefix`.
pub(crate) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// The prefix is not valid for [`Space::System`], whose keys do not begin with the organization.
pub(crate) fn all_of(org: &OrgId) -> Vec<u8> {
    prefix(&[org.as_str()])
}

// Records

pub(crate) fn rows(org: &OrgId, group: &str) -> Vec<u8> {
    prefix(&[org.as_str(), "row", group])
}

pub(crate) fn row(org: &OrgId, group: &str, row: &str) -> Vec<u8> {
    key(&[org.as_str(), "row", group, row])
}

pub(crate) fn record(org: &OrgId, kind: &str, id: &str) -> Vec<u8> {
    key(&[org.as_str(), kind, id])
}

pub(crate) fn revisions(org: &OrgId, id: &str) -> Vec<u8> {
    prefix(&[org.as_str(), "revision", id])
}

pub(crate) fn revision(org: &OrgId, id: &str, version: u32) -> Vec<u8> {
    key(&[org.as_str(), "revision", id, &format!("{version:010}")])
}

pub(crate) fn op(org: &OrgId, target: &Target, op: &OpKey) -> Vec<u8> {
    key(&[org.as_str(), "op", &target.to_string(), &op.to_string()])
}

pub(crate) fn ops(org: &OrgId, target: &Target) -> Vec<u8> {
    prefix(&[org.as_str(), "op", &target.to_string()])
}

pub(crate) fn idempotency(org: &OrgId, op: &OpKey) -> Vec<u8> {
    key(&[org.as_str(), "idempotency", &op.to_string()])
}

pub(crate) fn name(org: &OrgId, kind: &str, folded: &str) -> Vec<u8> {
    key(&[org.as_str(), "name", kind, folded])
}

pub(crate) fn references(org: &OrgId, used: &str) -> Vec<u8> {
    prefix(&[org.as_str(), "reference", used])
}

pub(crate) fn reference(org: &OrgId, used: &str, user: &str) -> Vec<u8> {
    key(&[org.as_str(), "reference", used, user])
}

/// Returns the prefix of the list of a kind. `parent`: of the list of this parent's children.
pub(crate) fn list(org: &OrgId, kind: &str, parent: Option<&str>) -> Vec<u8> {
    match parent {
        Some(parent) => prefix(&[org.as_str(), "list", kind, parent]),
        None => prefix(&[org.as_str(), "list", kind]),
    }
}

pub(crate) fn list_row(org: &OrgId, kind: &str, parent: Option<&str>, at: Timestamp, id: &str) -> Vec<u8> {
    let mut key = list(org, kind, parent);
    key.extend_from_slice(format!("{}/{id}", instant(at)).as_bytes());
    key
}

pub(crate) fn count(org: &OrgId, kind: &str) -> Vec<u8> {
    key(&[org.as_str(), "count", kind])
}

pub(crate) fn dependents(org: &OrgId, parent: &str) -> Vec<u8> {
    prefix(&[org.as_str(), "dependent", parent])
}

pub(crate) fn dependent(org: &OrgId, parent: &str, id: &str) -> Vec<u8> {
    key(&[org.as_str(), "dependent", parent, id])
}

pub(crate) fn text_state(org: &OrgId, id: &str) -> Vec<u8> {
    key(&[org.as_str(), "text_state", id])
}

pub(crate) fn usages(org: &OrgId) -> Vec<u8> {
    prefix(&[org.as_str(), "usage"])
}

pub(crate) fn usage(org: &OrgId, at: Timestamp, usage: &str) -> Vec<u8> {
    key(&[org.as_str(), "usage", &instant(at), usage])
}

pub(crate) fn usage_from(org: &OrgId, at: Timestamp) -> Vec<u8> {
    key(&[org.as_str(), "usage", &instant(at)])
}

pub(crate) fn audits(org: &OrgId) -> Vec<u8> {
    prefix(&[org.as_str(), "audit"])
}

pub(crate) fn audit(org: &OrgId, position: &AuditPosition) -> Vec<u8> {
    key(&[org.as_str(), "audit", &sorted(position.micros), &position.key])
}

pub(crate) fn account(org: &OrgId) -> Vec<u8> {
    key(&[org.as_str(), "account"])
}

pub(crate) fn account_entry(org: &OrgId, entry: &str) -> Vec<u8> {
    key(&[org.as_str(), "account_entry", entry])
}

pub(crate) fn sealed_block(org: &OrgId, block: &BlockId) -> Vec<u8> {
    key(&[org.as_str(), "block", block.as_str()])
}

pub(crate) fn ledger(org: &OrgId, block: &BlockId) -> Vec<u8> {
    prefix(&[org.as_str(), "ledger", block.as_str()])
}

pub(crate) fn ledger_row(org: &OrgId, block: &BlockId, call: &str) -> Vec<u8> {
    key(&[org.as_str(), "ledger", block.as_str(), call])
}

// Text

pub(crate) fn pages(org: &OrgId, id: &str) -> Vec<u8> {
    prefix(&[org.as_str(), id])
}

pub(crate) fn page(org: &OrgId, id: &str, number: u32) -> Vec<u8> {
    key(&[org.as_str(), id, &format!("{number:010}")])
}

// Threads

pub(crate) fn thread(org: &OrgId, id: &ThreadId) -> Vec<u8> {
    key(&[org.as_str(), id.as_str(), "header"])
}

pub(crate) fn entries(org: &OrgId, id: &ThreadId) -> Vec<u8> {
    prefix(&[org.as_str(), id.as_str(), "entry"])
}

pub(crate) fn entry(org: &OrgId, id: &ThreadId, sequence: u64) -> Vec<u8> {
    key(&[org.as_str(), id.as_str(), "entry", &format!("{sequence:020}")])
}

pub(crate) fn batches(org: &OrgId, id: &ThreadId) -> Vec<u8> {
    prefix(&[org.as_str(), id.as_str(), "batch"])
}

pub(crate) fn batch(org: &OrgId, id: &ThreadId, batch: u128) -> Vec<u8> {
    key(&[org.as_str(), id.as_str(), "batch", &format!("{batch:032x}")])
}

pub(crate) fn requests(org: &OrgId, id: &ThreadId) -> Vec<u8> {
    prefix(&[org.as_str(), id.as_str(), "request"])
}

pub(crate) fn request(org: &OrgId, id: &ThreadId, request: &RequestId) -> Vec<u8> {
    key(&[org.as_str(), id.as_str(), "request", request.as_str()])
}

pub(crate) fn threads_of(org: &OrgId, referenced: &str) -> Vec<u8> {
    prefix(&[org.as_str(), "thread_of", referenced])
}

pub(crate) fn thread_of(org: &OrgId, referenced: &str, id: &ThreadId) -> Vec<u8> {
    key(&[org.as_str(), "thread_of", referenced, id.as_str()])
}

// System

pub(crate) fn pending_texts(waits: TextWait) -> Vec<u8> {
    prefix(&[waits.index_name()])
}

pub(crate) fn pending_text(waits: TextWait, org: &OrgId, id: &str) -> Vec<u8> {
    key(&[waits.index_name(), org.as_str(), id])
}

pub(crate) fn probe() -> Vec<u8> {
    key(&["probe"])
}

pub(crate) fn all_deleted(kind: &str) -> Vec<u8> {
    prefix(&["deleted", kind])
}

pub(crate) fn deleted(kind: &str, at: Timestamp, org: &OrgId, id: &str) -> Vec<u8> {
    key(&["deleted", kind, &instant(at), org.as_str(), id])
}

pub(crate) fn request_marks() -> Vec<u8> {
    prefix(&["request"])
}

pub(crate) fn request_mark(at: Timestamp, org: &OrgId, op: &OpKey) -> Vec<u8> {
    key(&["request", &instant(at), org.as_str(), &op.to_string()])
}

pub(crate) fn expiries() -> Vec<u8> {
    prefix(&["thread_expiry"])
}

pub(crate) fn expiry(at: Timestamp, org: &OrgId, id: &ThreadId) -> Vec<u8> {
    key(&["thread_expiry", &instant(at), org.as_str(), id.as_str()])
}

pub(crate) fn open_turns() -> Vec<u8> {
    prefix(&["open_turn"])
}

pub(crate) fn open_turn(row: &OpenTurnRow) -> Vec<u8> {
    let (number, epoch) = (format!("{:010}", row.turn.number), format!("{:020}", row.epoch));
    key(&["open_turn", row.org.as_str(), row.turn.thread.as_str(), &number, &epoch])
}
