//! The keys of all rows; the module doc of the crate lists them.
//!
//! A key is text: parts joined by `/`. Only the last part may contain a slash; ids, kinds and numbers never contain
//! one.

use std::io::Write as _;

use folio_history::job::OpenJobRow;
use folio_history::thread::OpenTurnRow;
use folio_resources::audit::AuditPosition;
use folio_types::op::{OpKey, Target};
use folio_types::{BlobId, BlockId, JobId, OrgId, RequestId, ThreadId, Timestamp};

use folio_storage::TextWait;
use folio_storage::value::OpDataIndexRow;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Space {
    Records,
    Threads,
    Text,
    /// System indexes: their keys do not begin with the organization, and no request reads them.
    System,
}

/// Returns a text whose order is the order of time, with a precision of microseconds.
pub(crate) fn sortable_time(at: Timestamp) -> String {
    sortable_micros(at.as_microsecond())
}

fn sortable_micros(micros: i64) -> String {
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

/// Initial capacity of a key in bytes, which the keys of a turn do not exceed.
const CAPACITY: usize = 192;

/// Declares functions that return a key, or a prefix of keys (which ends with a slash), with their format.
macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident($($parameter:ident: $type:ty),*) = $format:literal $(, $part:ident = $value:expr)*;)+) => {
        $($(#[$doc])* pub(crate) fn $name($($parameter: $type),*) -> Vec<u8> {
            let mut key = Vec::with_capacity(CAPACITY);
            // Memory accepts every write.
            let _ = write!(key, $format $(, $part = $value)*);
            key
        })+
    };
}

// The keyspace `records`.
keys! {
    /// The prefix of all keys of an organization. Not valid for [`Space::System`].
    all_of(org: &OrgId) = "{org}/";
    rows(org: &OrgId, group: &str) = "{org}/row/{group}/";
    row(org: &OrgId, group: &str, row: &str) = "{org}/row/{group}/{row}";
    record(org: &OrgId, kind: &str, id: &str) = "{org}/{kind}/{id}";
    version(org: &OrgId, id: &str) = "{org}/version/{id}";
    revisions(org: &OrgId, id: &str) = "{org}/revision/{id}/";
    revision(org: &OrgId, id: &str, version: u32) = "{org}/revision/{id}/{version:010}";
    revision_names(org: &OrgId, id: &str) = "{org}/revision_names/{id}/";
    names_of_revision(org: &OrgId, id: &str, version: u32) = "{org}/revision_names/{id}/{version:010}";
    op_data(org: &OrgId, id: &str) = "{org}/op_data/{id}/";
    op_data_of(org: &OrgId, id: &str, version: u64) = "{org}/op_data/{id}/{version:020}";
    op(org: &OrgId, target: &Target, op: &OpKey) = "{org}/op/{target}/{op}";
    ops(org: &OrgId, target: &Target) = "{org}/op/{target}/";
    idempotency(org: &OrgId, op: &OpKey) = "{org}/idempotency/{op}";
    name(org: &OrgId, kind: &str, folded: &str) = "{org}/name/{kind}/{folded}";
    references(org: &OrgId, referenced: &str) = "{org}/reference/{referenced}/";
    reference(org: &OrgId, referenced: &str, referrer: &str) = "{org}/reference/{referenced}/{referrer}";
    list_of_kind(org: &OrgId, kind: &str) = "{org}/list/{kind}/";
    list_of_children(org: &OrgId, kind: &str, parent: &str) = "{org}/list_of/{parent}/{kind}/";
    count(org: &OrgId, kind: &str) = "{org}/count/{kind}";
    content_sizes(org: &OrgId) = "{org}/content_size/";
    content_size(org: &OrgId, id: &str) = "{org}/content_size/{id}";
    blob_sizes(org: &OrgId, id: &str) = "{org}/content_size/{id}/";
    blob_size(org: &OrgId, id: &str, blob: &BlobId) = "{org}/content_size/{id}/{blob}";
    dependents(org: &OrgId, parent: &str) = "{org}/dependent/{parent}/";
    dependent(org: &OrgId, parent: &str, id: &str) = "{org}/dependent/{parent}/{id}";
    text_state(org: &OrgId, id: &str) = "{org}/text_state/{id}";
    usages(org: &OrgId) = "{org}/usage/";
    usage(org: &OrgId, at: Timestamp, usage: &str) = "{org}/usage/{time}/{usage}", time = sortable_time(at);
    usage_from(org: &OrgId, at: Timestamp) = "{org}/usage/{time}", time = sortable_time(at);
    usage_sums(org: &OrgId, hour: Timestamp) = "{org}/usage_sums/{time}", time = sortable_time(hour);
    usage_late(org: &OrgId, hour: Timestamp) = "{org}/usage_late/{time}", time = sortable_time(hour);
    audits(org: &OrgId) = "{org}/audit/";
    audit(org: &OrgId, position: &AuditPosition) =
        "{org}/audit/{time}/{key}", time = sortable_micros(position.micros), key = position.key;
    account(org: &OrgId) = "{org}/account";
    account_entry(org: &OrgId, entry: &str) = "{org}/account_entry/{entry}";
    sealed_block(org: &OrgId, block: &BlockId) = "{org}/block/{block}";
    ledger(org: &OrgId, block: &BlockId) = "{org}/ledger/{block}/";
    ledger_row(org: &OrgId, block: &BlockId, call: &str) = "{org}/ledger/{block}/{call}";
    job(org: &OrgId, id: &JobId) = "{org}/job/{id}/header";
    job_fence(org: &OrgId, id: &JobId) = "{org}/job/{id}/fence";
    job_batches(org: &OrgId, id: &JobId) = "{org}/job/{id}/batch/";
    job_batch(org: &OrgId, id: &JobId, batch: u128) = "{org}/job/{id}/batch/{batch:032x}";
    job_outcomes(org: &OrgId, id: &JobId) = "{org}/job/{id}/outcome/";
    job_outcome(org: &OrgId, id: &JobId, item: u32) = "{org}/job/{id}/outcome/{item:010}";
    threads_of(org: &OrgId, referenced: &str) = "{org}/thread_of/{referenced}/";
    thread_of(org: &OrgId, referenced: &str, id: &ThreadId) = "{org}/thread_of/{referenced}/{id}";
}

/// Returns the prefix of the list rows of a kind. With a `parent`: only of the rows of its children.
pub(crate) fn list(org: &OrgId, kind: &str, parent: Option<&str>) -> Vec<u8> {
    parent.map_or_else(|| list_of_kind(org, kind), |parent| list_of_children(org, kind, parent))
}

pub(crate) fn list_row(org: &OrgId, kind: &str, parent: Option<&str>, at: Timestamp, id: &str) -> Vec<u8> {
    let mut key = list(org, kind, parent);
    key.extend_from_slice(format!("{}/{id}", sortable_time(at)).as_bytes());
    key
}

// The keyspaces `text`, `threads` and `system`.
keys! {
    pages(org: &OrgId, id: &str) = "{org}/{id}/";
    page(org: &OrgId, id: &str, number: u32) = "{org}/{id}/{number:010}";
    boxes(org: &OrgId, id: &str, number: u32) = "{org}/{id}/boxes/{number:010}";
    headings(org: &OrgId, id: &str, number: u32) = "{org}/{id}/headings/{number:010}";
    elements(org: &OrgId, id: &str, number: u32) = "{org}/{id}/elements/{number:010}";

    thread_rows(org: &OrgId, id: &ThreadId) = "{org}/{id}/";
    thread(org: &OrgId, id: &ThreadId) = "{org}/{id}/header";
    entries(org: &OrgId, id: &ThreadId) = "{org}/{id}/entry/";
    entry(org: &OrgId, id: &ThreadId, sequence: u64) = "{org}/{id}/entry/{sequence:020}";
    batch(org: &OrgId, id: &ThreadId, batch: u128) = "{org}/{id}/batch/{batch:032x}";
    request(org: &OrgId, id: &ThreadId, request: &RequestId) = "{org}/{id}/request/{request}";

    pending_texts(waits_for: TextWait) = "{index}/", index = waits_for.index_name();
    pending_text(waits_for: TextWait, org: &OrgId, id: &str) = "{index}/{org}/{id}", index = waits_for.index_name();
    probe() = "probe";
    all_deleted(kind: &str) = "deleted/{kind}/";
    deleted_at(kind: &str, at: Timestamp) = "deleted/{kind}/{time}/", time = sortable_time(at);
    deleted(kind: &str, at: Timestamp, org: &OrgId, id: &str) =
        "deleted/{kind}/{time}/{org}/{id}", time = sortable_time(at);
    indexed_requests() = "request/";
    indexed_request(at: Timestamp, org: &OrgId, op: &OpKey) = "request/{time}/{org}/{op}", time = sortable_time(at);
    indexed_data() = "op_data/";
    indexed_data_row(row: &OpDataIndexRow) = "op_data/{time}/{org}/{id}/{version:020}",
        time = sortable_time(row.at), org = row.org, id = row.id, version = row.version;
    expiries() = "thread_expiry/";
    expiries_at(at: Timestamp) = "thread_expiry/{time}/", time = sortable_time(at);
    expiry(at: Timestamp, org: &OrgId, id: &ThreadId) = "thread_expiry/{time}/{org}/{id}", time = sortable_time(at);
    job_expiries() = "job_expiry/";
    job_expiries_at(at: Timestamp) = "job_expiry/{time}/", time = sortable_time(at);
    job_expiry(at: Timestamp, org: &OrgId, id: &JobId) = "job_expiry/{time}/{org}/{id}", time = sortable_time(at);
    open_jobs() = "open_job/";
    open_job(row: &OpenJobRow) = "open_job/{org}/{job}", org = row.org, job = row.job;
    open_turns() = "open_turn/";
    open_turn(row: &OpenTurnRow) = "open_turn/{org}/{thread}/{number:010}/{epoch:020}",
        org = row.org, thread = row.turn.thread, number = row.turn.number, epoch = row.epoch;
}
