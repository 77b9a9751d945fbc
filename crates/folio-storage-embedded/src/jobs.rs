//! Jobs: headers, outcomes of items, and the index of open jobs. Each operation is one transaction.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::{
    ItemOutcome, JobDecision, JobFilter, JobHeader, JobRecord, JobWrite, JobWritten, KIND, OpenJobRow, decide,
};
use folio_history::thread::Fence;
use folio_types::page::{Page, PageRequest};
use folio_types::{Error, JobId, OrgId, Result, Timestamp};

use super::engine::Engine;
use super::keys::{self, Space};
use super::listing::{self, Listing};
use super::reads::{Range, Reads};
use super::transaction::Transaction;
use super::value::{Empty, JobExpiryRow, decode};
use folio_storage::{JobRecordStore, UnreadableRecords, encode_outcome};

pub(crate) struct Jobs(pub(crate) Arc<Engine>);

fn live(reads: &impl Reads, org: &OrgId, id: &JobId) -> Result<Option<JobHeader>> {
    Ok(reads.read::<JobRecord>(Space::Records, &keys::job(org, id))?.and_then(JobRecord::live))
}

#[async_trait]
impl JobRecordStore for Jobs {
    async fn create(&self, header: JobHeader) -> Result<JobHeader> {
        self.0.write(move |transaction| create(transaction, header)).await
    }

    async fn announce(&self, row: OpenJobRow) -> Result<()> {
        self.0.write(move |transaction| transaction.put(Space::System, keys::open_job(&row), &row)).await
    }

    async fn header(&self, org: &OrgId, id: &JobId) -> Result<Option<JobHeader>> {
        self.0.read(|view| live(view, org, id))
    }

    async fn fence(&self, org: &OrgId, id: &JobId) -> Result<Option<Fence>> {
        self.0.read(|view| match view.read(Space::Records, &keys::job_fence(org, id))? {
            Some(fence) => Ok(Some(fence)),
            // An older version of Folio wrote the job last, or there is no job.
            None => Ok(live(view, org, id)?.map(|header| header.fence())),
        })
    }

    async fn write(&self, write: JobWrite) -> Result<JobWritten> {
        let outcome = write.outcome.as_ref().map(encode_outcome).transpose()?;
        let bytes = outcome.as_ref().map_or(0, Vec::len);
        self.0.write_large(bytes, move |transaction| execute(transaction, write, outcome)).await
    }

    async fn outcomes(&self, org: &OrgId, id: &JobId, after: u32, limit: usize) -> Result<Vec<ItemOutcome>> {
        let from = keys::job_outcome(org, id, after.saturating_add(1));
        let range = Range::prefix(Space::Records, keys::job_outcomes(org, id)).from(from);
        self.0.scan(move |view| view.values(range, limit)).await
    }

    async fn list(&self, org: &OrgId, filter: &JobFilter, page: &PageRequest) -> Result<Page<JobHeader>> {
        let (org, filter, page) = (org.clone(), filter.clone(), page.clone());
        self.0.scan(move |view| list(view, &org, &filter, &page)).await
    }

    async fn delete(&self, org: &OrgId, id: &JobId) -> Result<()> {
        let (org, id) = (org.clone(), id.clone());
        self.0.write(move |transaction| delete(transaction, &org, &id)).await
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<(OrgId, JobId)>> {
        let unreadable = self.0.unreadable().clone();
        self.0.scan(move |view| expired(view, now, limit, &unreadable)).await
    }

    async fn open(&self, after: Option<&OpenJobRow>, limit: usize) -> Result<Vec<OpenJobRow>> {
        let mut range = Range::prefix(Space::System, keys::open_jobs());
        if let Some(after) = after {
            range = range.after(keys::open_job(after));
        }
        self.0.scan_index(range, limit).await
    }

    async fn remove_open(&self, rows: &[OpenJobRow]) -> Result<()> {
        let keys: Vec<_> = rows.iter().map(keys::open_job).collect();
        self.0.remove_lazily(Space::System, keys).await
    }

    async fn compact_open(&self) -> Result<()> {
        Ok(())
    }
}

fn create(transaction: &mut Transaction<'_>, header: JobHeader) -> Result<JobHeader> {
    let key = keys::job(header.org(), &header.id);
    match transaction.read(Space::Records, &key)? {
        Some(JobRecord::Live(stored)) => return Ok(*stored),
        Some(JobRecord::Tombstone { .. }) => return Err(Error::not_found(KIND, &header.id)),
        None => {}
    }
    let (row, listed) = (OpenJobRow::of(&header), header.listed());
    transaction.put(Space::System, keys::open_job(&row), &row)?;
    listing::put_row(transaction, header.org(), header.queue().list(), listed.created_at, &listed.row)?;
    put_header(transaction, key, &header)?;
    Ok(header)
}

fn execute(transaction: &mut Transaction<'_>, write: JobWrite, outcome: Option<Vec<u8>>) -> Result<JobWritten> {
    let (org, id) = (write.before.org(), &write.before.id);
    let (key, batch) = (keys::job(org, id), keys::job_batch(org, id, write.batch));
    let is_committed = transaction.contains(Space::Records, &batch)?;
    if let JobDecision::Answer(answer) = decide(&write, transaction.read(Space::Records, &key)?, is_committed)? {
        return Ok(answer);
    }
    if let (Some(item), Some(bytes)) = (&write.outcome, outcome) {
        transaction.put_bytes(Space::Records, keys::job_outcome(org, id, item.item), bytes)?;
    }
    let listed = write.after.listed();
    if listed.row != write.before.listed().row {
        listing::put_row(transaction, org, write.after.queue().list(), listed.created_at, &listed.row)?;
    }
    if let Some(at) = write.after.expires_at() {
        let row = JobExpiryRow { org: org.clone(), job: id.clone(), at };
        transaction.put(Space::System, keys::job_expiry(at, org, id), &row)?;
    }
    transaction.put(Space::Records, batch, &Empty)?;
    put_header(transaction, key, &write.after)?;
    Ok(JobWritten::Done(Box::new(write.after)))
}

/// Stores a header and its fence.
fn put_header(transaction: &mut Transaction<'_>, key: Vec<u8>, header: &JobHeader) -> Result<()> {
    transaction.put(Space::Records, keys::job_fence(header.org(), &header.id), &header.fence())?;
    transaction.put(Space::Records, key, &JobRecord::Live(Box::new(header.clone())))
}

fn list(reads: &impl Reads, org: &OrgId, filter: &JobFilter, page: &PageRequest) -> Result<Page<JobHeader>> {
    let conditions = filter.conditions();
    Listing::of_kind(reads, org, filter.queue.list(), &conditions)?.page(reads, page, |row| {
        let header = live(reads, org, &row.id.parse()?)?;
        let header = header.ok_or_else(|| Error::internal("a list row refers to a missing job"))?;
        let bytes = header.size_bytes();
        Ok((header, bytes))
    })
}

fn delete(transaction: &mut Transaction<'_>, org: &OrgId, id: &JobId) -> Result<()> {
    let Some(header) = live(transaction, org, id)? else { return Ok(()) };
    for prefix in [keys::job_batches(org, id), keys::job_outcomes(org, id)] {
        transaction.remove_all(Space::Records, prefix)?;
    }
    let listed = header.listed();
    listing::remove_row(transaction, org, header.queue().list(), listed.created_at, &listed.row)?;
    if let Some(at) = header.expires_at() {
        transaction.remove(Space::System, keys::job_expiry(at, org, id));
    }
    transaction.remove(Space::System, keys::open_job(&OpenJobRow::of(&header)));
    transaction.remove(Space::Records, keys::job_fence(org, id));
    transaction.put(Space::Records, keys::job(org, id), &header.tombstone())
}

fn expired(
    reads: &impl Reads,
    now: Timestamp,
    limit: usize,
    unreadable: &UnreadableRecords,
) -> Result<Vec<(OrgId, JobId)>> {
    let range = Range::prefix(Space::System, keys::job_expiries()).before(keys::after(&keys::job_expiries_at(now)));
    reads.select(range, limit, |key, bytes| {
        let row: Option<JobExpiryRow> = unreadable.skip(String::from_utf8_lossy(key), decode(bytes))?;
        Ok(row.filter(|row| row.at <= now).map(|row| (row.org, row.job)))
    })
}
