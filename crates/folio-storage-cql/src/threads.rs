//! Threads: headers and journals.
//!
//! | conditional write | condition | reason |
//! |---|---|---|
//! | creation, with the first append | `live = null`; rows of batch and request `IF NOT EXISTS` | one thread per id |
//! | append | `live`, `epoch`, `version`, expiry; the same rows `IF NOT EXISTS` | invariant 1; complete returned header
//! |
//! | tombstone | `live`, `epoch`, `version` | no append to a removed thread |
//! | tombstone of a thread that does not exist | `live = null` | no creation afterwards |
//! | expiry | `live`, the expiry that was read | appends do not write the expiry |
//! | expiry of an unused thread | the same, `epoch`, `version` | a concurrent use keeps the thread |
//!
//! The imported history of a fork may be large. The history is written first, unconditionally, in a part with a random
//! name for each creation, and becomes valid when the header refers to that name.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::journal::Entry;
use folio_history::thread::{Append, Appended, Fence, NewThread, RequestRow, ThreadFilter, ThreadHeader, ThreadRecord};
use folio_history::thread_write::ThreadWrite;
use folio_resources::Condition;
use folio_types::op::{OpKey, Target};
use folio_types::page::{Page, PageRequest};
use folio_types::{OrgId, Reason, RequestId, Result, ThreadId, Timestamp};

use super::append::{self, LoadedThread, nanoseconds};
use super::catalogue::{self, CatalogueRow, ListEntry, Query};
use super::key_pages::KeyPages;
use super::keyspace::Keyspace;
use super::retry;
use super::session::{ConditionalResult, Read};
use super::table::{Part, SystemRow, ThreadPart};
use super::values::micros;
use super::{content_sizes, dependents};
use folio_storage::value::{ThreadExpiryRow, decode, encode};
use folio_storage::{EncodedThreadWrite, ThreadStore};

const EXPIRY: &str = "thread_expiry";

/// Returns None for an ephemeral thread.
pub(crate) fn listed(header: &ThreadHeader) -> Option<ListEntry> {
    header.listed().as_ref().map(ListEntry::from)
}

pub(crate) async fn enter_expiry(keyspace: &Keyspace, org: &OrgId, id: &ThreadId, at: Timestamp) -> Result<()> {
    let index_row = ThreadExpiryRow { org: org.clone(), thread: id.clone(), at };
    let row = SystemRow { at: micros(at), key: format!("{org}/{id}"), value: encode(&index_row)? };
    keyspace.tables.system_rows.put(EXPIRY, row).await
}

async fn remove_expiry(keyspace: &Keyspace, org: &OrgId, id: &ThreadId, at: Timestamp) -> Result<()> {
    keyspace.tables.system_rows.remove(EXPIRY, micros(at), &format!("{org}/{id}")).await
}

pub(crate) struct Threads(pub(crate) Arc<Keyspace>);

#[async_trait]
impl ThreadStore for Threads {
    async fn create(&self, thread: NewThread) -> Result<ThreadHeader> {
        Ok(self.write(ThreadWrite::Create(Box::new(thread))).await?.header())
    }

    async fn begin(&self, thread: NewThread, first: Append) -> Result<Appended> {
        self.write(ThreadWrite::Begin(Box::new(thread), first)).await
    }

    async fn header(&self, org: &OrgId, id: &ThreadId) -> Result<Option<ThreadHeader>> {
        Ok(append::read(&self.0, org, id, Read::Quorum).await?.live())
    }

    async fn append(&self, org: &OrgId, id: &ThreadId, append: Append) -> Result<Appended> {
        self.write(ThreadWrite::Append(org.clone(), id.clone(), append)).await
    }

    async fn has_batch(&self, org: &OrgId, id: &ThreadId, batch: u128) -> Result<bool> {
        append::has_batch(&self.0, org, id, batch).await
    }

    async fn entries(&self, org: &OrgId, id: &ThreadId, from: u64, limit: usize) -> Result<Vec<(u64, Entry)>> {
        let header = self.0.tables.threads.header(org, id, Read::Quorum).await?;
        let (imported, creation) = header.imported.unwrap_or_default();
        let mut found = Vec::new();
        while found.len() < limit {
            let next = from + found.len() as u64;
            let from_before = next < imported;
            let (part, before) = match from_before {
                true => (ThreadPart::Imported(creation.clone()), imported),
                false => (ThreadPart::Entry, u64::MAX),
            };
            // An entry may have 256 KiB, so each read returns a bounded number of entries.
            let rows = ENTRIES_PER_READ.min(limit - found.len());
            let stored = self.0.tables.threads.entries((org, id), part, (next, before), rows).await?;
            let read = stored.len();
            for (at, bytes) in (next..).zip(stored) {
                found.push((at, decode(&bytes)?));
            }
            if read == 0 || (read < rows && !from_before) {
                break;
            }
        }
        Ok(found)
    }

    async fn request(&self, org: &OrgId, id: &ThreadId, request: &RequestId) -> Result<Option<RequestRow>> {
        append::request(&self.0, org, id, request, Read::Quorum).await
    }

    async fn list(&self, org: &OrgId, filter: &ThreadFilter, page: &PageRequest) -> Result<Page<ThreadHeader>> {
        let conditions = filter.conditions();
        let query = Query::new(Target::THREAD, &conditions, format!("{conditions:?}"));
        let keyspace = &*self.0;
        let load = |found: CatalogueRow| item(keyspace, org, &conditions, found);
        catalogue::page(keyspace, org, &query, page, |found| Box::pin(load(found))).await
    }

    async fn delete(&self, org: &OrgId, id: &ThreadId, by: Option<&OpKey>) -> Result<()> {
        for attempt in 0..retry::ATTEMPTS {
            let read = append::read(&self.0, org, id, Read::Serial).await?;
            let imported = read.imported.clone();
            let header = match read.record {
                Some(ThreadRecord::Live(header)) => header,
                Some(ThreadRecord::Tombstone { .. }) => return self.empty(org, id, imported).await,
                None => return Ok(()),
            };
            let tombstone = header.tombstone(by.cloned());
            let fence = (header.epoch, header.version);
            if let ConditionalResult::Applied =
                self.0.tables.threads.write_tombstone((org, id), fence, encode(&tombstone)?).await?
            {
                return self.settle_removal(&header, imported).await;
            }
            retry::pause(attempt, self.0.random()).await;
        }
        Err(retry::contended("the thread"))
    }

    async fn remove_unused(&self, org: &OrgId, id: &ThreadId) -> Result<bool> {
        for attempt in 0..retry::ATTEMPTS {
            let read = append::read(&self.0, org, id, Read::Serial).await?;
            let imported = read.imported.clone();
            let threads = &self.0.tables.threads;
            let written = match read.record {
                Some(ThreadRecord::Live(header)) if header.turns > 0 => return Ok(false),
                Some(ThreadRecord::Live(header)) => {
                    let (tombstone, fence) = (encode(&header.tombstone(None))?, (header.epoch, header.version));
                    let written = threads.write_tombstone((org, id), fence, tombstone).await?;
                    if matches!(written, ConditionalResult::Applied) {
                        self.settle_removal(&header, imported).await?;
                    }
                    written
                }
                Some(ThreadRecord::Tombstone { .. }) => {
                    self.empty(org, id, imported).await?;
                    return Ok(true);
                }
                None => threads.prevent((org, id), encode(&ThreadRecord::never_created())?).await?,
            };
            if matches!(written, ConditionalResult::Applied) {
                return Ok(true);
            }
            retry::pause(attempt, self.0.random()).await;
        }
        Err(retry::contended("the thread"))
    }

    async fn removed_by(&self, org: &OrgId, id: &ThreadId) -> Result<Option<OpKey>> {
        match append::read(&self.0, org, id, Read::Serial).await?.record {
            Some(ThreadRecord::Tombstone { by, .. }) => Ok(by),
            Some(ThreadRecord::Live(_)) | None => Ok(None),
        }
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<(OrgId, ThreadId)>> {
        let mut found = Vec::new();
        for (row, ThreadExpiryRow { org, thread, at }) in self.0.first_rows(EXPIRY, now, limit).await? {
            let read = match append::read(&self.0, &org, &thread, Read::Quorum).await {
                Ok(read) => read,
                // The sweep reports the thread.
                Err(error) if error.reason == Reason::StoredFormat => {
                    found.push((org, thread));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let LoadedThread { record, imported, .. } = read;
            match record {
                Some(ThreadRecord::Live(header)) if header.expires_at == Some(at) => found.push((org, thread)),
                // The expiry was changed, and another row has the new time.
                Some(ThreadRecord::Live(_)) => self.0.tables.system_rows.remove(EXPIRY, row.at, &row.key).await?,
                // The deletion may have stopped before it removed the other rows.
                Some(ThreadRecord::Tombstone { .. }) => {
                    self.empty(&org, &thread, imported).await?;
                    self.0.tables.system_rows.remove(EXPIRY, row.at, &row.key).await?;
                }
                None => {}
            }
        }
        Ok(found)
    }

    async fn expire_referrers(&self, org: &OrgId, id: &str, at: Timestamp) -> Result<()> {
        let mut done = Ok(());
        let mut pages = KeyPages::new(&self.0, org, id, Part::Thread);
        while let Some(page) = pages.next_page().await? {
            for thread in page {
                match self.expire(org, &thread.parse()?, at).await {
                    Ok(()) => {}
                    Err(error) if error.reason == Reason::StoredFormat => done = done.and(Err(error)),
                    Err(error) => return Err(error),
                }
            }
        }
        done
    }

    async fn expire_unused(&self, org: &OrgId, id: &ThreadId, fence: Fence, at: Timestamp) -> Result<bool> {
        let to = nanoseconds(at)?;
        let read = append::read(&self.0, org, id, Read::Serial).await?;
        let before = read.expires_at;
        if !read.live().is_some_and(|header| header.is_unused_at(fence) && header.is_kept_at(at)) {
            return Ok(false);
        }
        // If the thread is used concurrently, this row is left dangling and its next reader removes it.
        enter_expiry(&self.0, org, id, at).await?;
        let ConditionalResult::Applied = self.0.tables.threads.expire_unused((org, id), fence, before, to).await?
        else {
            return Ok(false);
        };
        if let Some(before) = before {
            remove_expiry(&self.0, org, id, append::timestamp_from_nanoseconds(before)?).await?;
        }
        Ok(true)
    }
}

const ENTRIES_PER_READ: usize = 64;

/// Returns the thread of a list row if the row still describes the thread; otherwise removes the row.
async fn item(
    keyspace: &Keyspace,
    org: &OrgId,
    conditions: &[Condition],
    found: CatalogueRow,
) -> Result<Option<(ThreadHeader, usize)>> {
    let id: ThreadId = found.position.id.parse()?;
    let LoadedThread { record, .. } = append::read(keyspace, org, &id, Read::Quorum).await?;
    let version = match &record {
        Some(ThreadRecord::Live(header)) => header.version.saturating_add(1),
        Some(ThreadRecord::Tombstone { version, .. }) => version.saturating_add(2),
        None => 0,
    };
    let listed = match record {
        Some(ThreadRecord::Live(header)) if micros(header.created_at) == found.position.at => {
            if header.list_row().matches(conditions) {
                let bytes = header.size_bytes();
                return Ok(Some((*header, bytes)));
            }
            listed(&header)
        }
        _ => None,
    };
    let (item, now) = ((found.position.at, id.as_str()), listed.as_ref().map(|listed| &listed.row));
    catalogue::repair_keys(keyspace, (org, Target::THREAD), item, found.keys()?, (now, version)).await?;
    Ok(None)
}

impl Threads {
    async fn write(&self, write: ThreadWrite) -> Result<Appended> {
        append::write(&self.0, &EncodedThreadWrite::new(write)?).await
    }

    /// Executes the steps after a tombstone. A repeated removal executes only [`Self::empty`] again.
    async fn settle_removal(&self, header: &ThreadHeader, imported: Option<(u64, String)>) -> Result<()> {
        let (org, id) = (&header.org, &header.id);
        self.empty(org, id, imported).await?;
        for referenced in header.references() {
            dependents::remove(&self.0, org, referenced, (Part::Thread, id.as_str())).await?;
        }
        if let Some(listed) = listed(header) {
            let version = header.version.saturating_add(2);
            catalogue::remove_old_rows(&self.0, org, Target::THREAD, &listed, None, version).await?;
        }
        if let Some(at) = header.expires_at {
            remove_expiry(&self.0, org, id, at).await?;
        }
        Ok(())
    }

    /// Removes all rows of a removed thread except the tombstone.
    async fn empty(&self, org: &OrgId, id: &ThreadId, imported: Option<(u64, String)>) -> Result<()> {
        let mut parts = vec![ThreadPart::Entry, ThreadPart::Batch, ThreadPart::Request];
        parts.extend(imported.map(|(_, creation)| ThreadPart::Imported(creation)));
        for part in parts {
            self.0.tables.threads.remove_rows((org, id), &part, self.0.now()).await?;
        }
        content_sizes::remove(&self.0, org, id.as_str()).await
    }

    async fn expire(&self, org: &OrgId, id: &ThreadId, at: Timestamp) -> Result<()> {
        let to = nanoseconds(at)?;
        for attempt in 0..retry::ATTEMPTS {
            let read = append::read(&self.0, org, id, Read::Serial).await?;
            let before = read.expires_at;
            if !read.live().is_some_and(|header| header.is_kept_at(at)) {
                return Ok(());
            }
            // Adds the new row first and removes the old row last, so that an expiring thread is never missing in the
            // index.
            enter_expiry(&self.0, org, id, at).await?;
            if let ConditionalResult::Applied = self.0.tables.threads.expire((org, id), before, to).await? {
                if let Some(before) = before {
                    remove_expiry(&self.0, org, id, append::timestamp_from_nanoseconds(before)?).await?;
                }
                return Ok(());
            }
            retry::pause(attempt, self.0.random()).await;
        }
        Err(retry::contended("the thread"))
    }
}
