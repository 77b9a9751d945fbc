//! Threads: headers and journals.
//!
//! The transaction that deletes a thread writes the tombstone, and removes the rows of lists and indexes and the first page of
//! the thread's own rows. If further rows remain, it enters the thread in the index of expiring threads, and later transactions
//! remove them. After an interruption the sweep of expired threads deletes the thread again, which removes the remaining rows.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, Fence, NewThread, RequestRow, ThreadFilter, ThreadHeader, ThreadRecord};
use folio_history::thread_write::ThreadWrite;
use folio_resources::ListEntry;
use folio_types::op::{OpKey, Target};
use folio_types::page::{Page, PageRequest};
use folio_types::{Error, OrgId, Reason, RequestId, Result, ThreadId, Timestamp};

use super::engine::Engine;
use super::keys::{self, Space};
use super::listing::{self, Listing};
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::{Empty, ThreadExpiryRow, decode};
use super::{append, deletions};
use folio_storage::{EncodedThreadWrite, ThreadStore, UnreadableRecords};

/// Maximum number of threads of a document whose expiry one transaction sets.
const EXPIRED_AT_ONCE: usize = 20;
/// Time of a deleted thread with remaining rows in the index of expiring threads. A fixed time, so that the row is found by the
/// id of the thread. It is before the expiry of each live thread.
const DELETED_AT: Timestamp = Timestamp::UNIX_EPOCH;

/// Returns None unless the thread is live.
pub(crate) fn live(reads: &impl Reads, org: &OrgId, id: &ThreadId) -> Result<Option<ThreadHeader>> {
    Ok(reads.read::<ThreadRecord>(Space::Threads, &keys::thread(org, id))?.and_then(ThreadRecord::live))
}

/// Writes a header, and the thread's row in the index of expiring threads if its expiry changed.
pub(crate) fn store(
    transaction: &mut Transaction<'_>,
    before: Option<&ThreadHeader>,
    header: &ThreadHeader,
) -> Result<()> {
    let (org, id) = (&header.org, &header.id);
    let expiry_before = before.and_then(|before| before.expires_at);
    if expiry_before != header.expires_at {
        if let Some(at) = expiry_before {
            transaction.remove(Space::System, keys::expiry(at, org, id));
        }
        if let Some(at) = header.expires_at {
            let index_row = ThreadExpiryRow { org: org.clone(), thread: id.clone(), at };
            transaction.put(Space::System, keys::expiry(at, org, id), &index_row)?;
        }
    }
    let record = ThreadRecord::Live(Box::new(header.clone()));
    transaction.put(Space::Threads, keys::thread(org, id), &record)
}

pub(crate) struct Threads(pub(crate) Arc<Engine>);

#[async_trait]
impl ThreadStore for Threads {
    async fn create(&self, thread: NewThread) -> Result<ThreadHeader> {
        Ok(self.write(ThreadWrite::Create(Box::new(thread))).await?.header())
    }

    async fn begin(&self, thread: NewThread, first: Append) -> Result<Appended> {
        self.write(ThreadWrite::Begin(Box::new(thread), first)).await
    }

    async fn header(&self, org: &OrgId, id: &ThreadId) -> Result<Option<ThreadHeader>> {
        self.0.read(|view| live(view, org, id))
    }

    async fn append(&self, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended> {
        self.write(ThreadWrite::Append(org.clone(), id.clone(), append)).await
    }

    async fn has_batch(&self, org: &OrgId, id: &ThreadId, batch: u128) -> Result<bool> {
        self.0.read(|view| {
            Ok(view.contains(Space::Threads, &keys::batch(org, id, batch))? && live(view, org, id)?.is_some())
        })
    }

    async fn entries(&self, org: &OrgId, id: &ThreadId, from: u64, limit: usize) -> Result<Vec<(u64, Entry)>> {
        let range = Range::prefix(Space::Threads, keys::entries(org, id)).from(keys::entry(org, id, from));
        let (org, id) = (org.clone(), id.clone());
        self.0
            .scan(move |view| {
                if live(view, &org, &id)?.is_none() {
                    return Ok(Vec::new());
                }
                // Sequence numbers have no gaps, and the range begins at `from`.
                let entries: Vec<Entry> = view.values(range, limit)?;
                Ok((from..).zip(entries).collect())
            })
            .await
    }

    async fn request(&self, org: &OrgId, id: &ThreadId, request: &RequestId) -> Result<Option<RequestRow>> {
        self.0.read(|view| match view.read::<RequestRow>(Space::Threads, &keys::request(org, id, request))? {
            Some(row) => Ok(live(view, org, id)?.map(|_| row)),
            None => Ok(None),
        })
    }

    async fn list(&self, org: &OrgId, filter: &ThreadFilter, page: &PageRequest) -> Result<Page<ThreadHeader>> {
        let (org, filter, page) = (org.clone(), filter.clone(), page.clone());
        self.0.scan(move |view| list(view, &org, &filter, &page)).await
    }

    async fn delete(&self, org: &OrgId, id: &ThreadId, by: Option<&OpKey>) -> Result<()> {
        let (of_org, thread, by) = (org.clone(), id.clone(), by.cloned());
        match self.0.write(move |transaction| delete(transaction, &of_org, &thread, by)).await? {
            true => self.remove_rows(org, id).await,
            false => Ok(()),
        }
    }

    async fn remove_unused(&self, org: &OrgId, id: &ThreadId) -> Result<bool> {
        let (of_org, thread) = (org.clone(), id.clone());
        let removed = self.0.write(move |transaction| remove_unused(transaction, &of_org, &thread)).await?;
        if removed == Some(true) {
            self.remove_rows(org, id).await?;
        }
        Ok(removed.is_some())
    }

    async fn removed_by(&self, org: &OrgId, id: &ThreadId) -> Result<Option<OpKey>> {
        self.0.read(|view| match view.read::<ThreadRecord>(Space::Threads, &keys::thread(org, id))? {
            Some(ThreadRecord::Tombstone { by, .. }) => Ok(by),
            Some(ThreadRecord::Live(_)) | None => Ok(None),
        })
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<(OrgId, ThreadId)>> {
        let unreadable = self.0.unreadable().clone();
        self.0.scan(move |view| expired(view, now, limit, &unreadable)).await
    }

    async fn expire_referrers(&self, org: &OrgId, id: &str, at: Timestamp) -> Result<()> {
        let prefix = keys::threads_of(org, id);
        let (mut range, start) = (Range::prefix(Space::Records, prefix.clone()), prefix.len());
        let mut unreadable = None;
        loop {
            let page = range.clone();
            let keys = self.0.scan(move |view| view.keys(page, EXPIRED_AT_ONCE)).await?;
            let Some(last) = keys.last().cloned() else { return unreadable.map_or(Ok(()), Err) };
            let org = org.clone();
            let failed = self.0.write(move |transaction| expire_all(transaction, &org, &keys, start, at)).await?;
            unreadable = unreadable.or(failed);
            range = range.after(last);
        }
    }

    async fn expire_unused(&self, org: &OrgId, id: &ThreadId, fence: Fence, at: Timestamp) -> Result<bool> {
        let (org, id) = (org.clone(), id.clone());
        self.0
            .write(move |transaction| {
                let before = live(transaction, &org, &id)?.filter(|before| before.is_unused_at(fence));
                before.map_or(Ok(false), |before| expire(transaction, before, at))
            })
            .await
    }
}

impl Threads {
    /// Writes a thread. A new thread or turn must leave the reserve of the disk.
    async fn write(&self, write: ThreadWrite) -> Result<Appended> {
        let is_new = write.append().is_none_or(|append| append.entries.iter().any(Entry::starts_segment));
        if is_new {
            self.0.reserve().check()?;
        }
        let write = EncodedThreadWrite::new(write)?;
        self.0.write_large(write.size_bytes(), move |transaction| append::write(transaction, write)).await
    }

    /// Removes the remaining rows of a deleted thread, and then its row in the index of expiring threads.
    async fn remove_rows(&self, org: &OrgId, id: &ThreadId) -> Result<()> {
        let rows = Range::prefix(Space::Threads, keys::thread_rows(org, id));
        deletions::remove_rows(&self.0, rows, keys::thread(org, id)).await?;
        self.0.remove_lazily(Space::System, vec![keys::expiry(DELETED_AT, org, id)]).await
    }
}

fn list(reads: &impl Reads, org: &OrgId, filter: &ThreadFilter, page: &PageRequest) -> Result<Page<ThreadHeader>> {
    let conditions = filter.conditions();
    Listing::of_kind(reads, org, Target::THREAD, &conditions)?.page(reads, page, |row| {
        let header = live(reads, org, &row.id.parse()?)?;
        let header = header.ok_or_else(|| Error::internal("a list row refers to a missing thread"))?;
        let bytes = header.size_bytes();
        Ok((header, bytes))
    })
}

fn expired(
    reads: &impl Reads,
    now: Timestamp,
    limit: usize,
    unreadable: &UnreadableRecords,
) -> Result<Vec<(OrgId, ThreadId)>> {
    let range = Range::prefix(Space::System, keys::expiries()).before(keys::after(&keys::expiries_at(now)));
    reads.select(range, limit, |key, bytes| {
        let row: Option<ThreadExpiryRow> = unreadable.skip(String::from_utf8_lossy(key), decode(bytes))?;
        Ok(row.filter(|row| row.at <= now).map(|row| (row.org, row.thread)))
    })
}

/// Writes the tombstone of a thread. Returns whether rows of the deleted thread remain.
pub(crate) fn delete(transaction: &mut Transaction<'_>, org: &OrgId, id: &ThreadId, by: Option<OpKey>) -> Result<bool> {
    let Some(header) = live(transaction, org, id)? else { return has_remaining_rows(transaction, org, id) };
    for referenced in header.references() {
        transaction.remove(Space::Records, keys::thread_of(org, referenced, id));
    }
    if let Some(listed) = header.listed() {
        listing::remove_row(transaction, org, Target::THREAD, listed.created_at, &listed.row)?;
    }
    if let Some(at) = header.expires_at {
        transaction.remove(Space::System, keys::expiry(at, org, id));
    }
    transaction.remove(Space::Records, keys::content_size(org, id.as_str()));
    transaction.put(Space::Threads, keys::thread(org, id), &header.tombstone(by))?;
    let rows = Range::prefix(Space::Threads, keys::thread_rows(org, id));
    let has_rows = deletions::remove_first_rows(transaction, rows, &keys::thread(org, id))?;
    if has_rows {
        let index_row = ThreadExpiryRow { org: org.clone(), thread: id.clone(), at: DELETED_AT };
        transaction.put(Space::System, keys::expiry(DELETED_AT, org, id), &index_row)?;
    }
    Ok(has_rows)
}

/// Returns whether the deletion of a thread was interrupted, or is in progress.
fn has_remaining_rows(reads: &impl Reads, org: &OrgId, id: &ThreadId) -> Result<bool> {
    reads.contains(Space::System, &keys::expiry(DELETED_AT, org, id))
}

/// Writes the tombstone of a thread without a turn. Returns whether rows of the deleted thread remain. None: a turn was accepted.
fn remove_unused(transaction: &mut Transaction<'_>, org: &OrgId, id: &ThreadId) -> Result<Option<bool>> {
    let has_rows = match transaction.read::<ThreadRecord>(Space::Threads, &keys::thread(org, id))? {
        Some(ThreadRecord::Live(header)) if header.turns > 0 => return Ok(None),
        Some(ThreadRecord::Live(_) | ThreadRecord::Tombstone { .. }) => delete(transaction, org, id, None)?,
        None => {
            transaction.put(Space::Threads, keys::thread(org, id), &ThreadRecord::never_created())?;
            false
        }
    };
    Ok(Some(has_rows))
}

/// Sets the expiry of the threads whose ids begin at `start` in these keys.
/// Returns the error of the first unreadable thread; the others expire.
fn expire_all(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    keys: &[Vec<u8>],
    start: usize,
    at: Timestamp,
) -> Result<Option<Error>> {
    let mut unreadable = None;
    for key in keys {
        let id = key.get(start..).unwrap_or_default();
        let id: ThreadId = String::from_utf8_lossy(id).parse()?;
        match live(transaction, org, &id) {
            Ok(Some(before)) => {
                expire(transaction, before, at)?;
            }
            Ok(None) => {}
            Err(error) if error.reason == Reason::StoredFormat => unreadable = unreadable.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(unreadable)
}

/// Sets the expiry of a thread unless the thread expires earlier; returns whether it was set.
fn expire(transaction: &mut Transaction<'_>, before: ThreadHeader, at: Timestamp) -> Result<bool> {
    let is_kept = before.is_kept_at(at);
    if is_kept {
        let header = ThreadHeader { expires_at: Some(at), ..before.clone() };
        store(transaction, Some(&before), &header)?;
    }
    Ok(is_kept)
}

/// Adds a thread to the index of a resource that the thread refers to.
pub(crate) fn enter_reference(
    transaction: &mut Transaction<'_>,
    org: &OrgId,
    referenced: &str,
    id: &ThreadId,
) -> Result<()> {
    transaction.put(Space::Records, keys::thread_of(org, referenced, id), &Empty)
}

pub(crate) fn put_row(transaction: &mut Transaction<'_>, org: &OrgId, listed: &ListEntry) -> Result<()> {
    listing::put_row(transaction, org, Target::THREAD, listed.created_at, &listed.row)
}
