//! Jobs: headers, outcomes of items, and the index of open jobs.
//!
//! | conditional write | condition | reason |
//! |---|---|---|
//! | creation | `live = null` | one job per id |
//! | change, with the outcome of an item | `live`, `epoch`, `version`; the row of the batch `IF NOT EXISTS` | invariant 1 |
//! | tombstone | `live`, `epoch`, `version` | no write to a deleted job |
//!
//! The row of the index of open jobs, new list rows and the row of the index of expiring jobs are written before the
//! conditional write; old list rows are removed after it.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::{
    ItemOutcome, JobDecision, JobFilter, JobHeader, JobQueue, JobRecord, JobWrite, JobWritten, KIND, OpenJobRow, decide,
};
use folio_history::thread::Fence;
use folio_resources::Condition;
use folio_types::page::{Page, PageRequest};
use folio_types::{Error, JobId, OrgId, Reason, Result, Timestamp};

use super::catalogue::{self, CatalogueRow, ListEntry, Query};
use super::keyspace::Keyspace;
use super::session::{ConditionalResult, Read};
use super::table::{JOB_PARTS, SystemRow};
use super::values::micros;
use super::{open_turns, retry};
use folio_storage::value::{Empty, JobExpiryRow, decode, encode};
use folio_storage::{JobRecordStore, encode_outcome};

const EXPIRY: &str = "job_expiry";

pub(crate) struct Jobs(pub(crate) Arc<Keyspace>);

fn listed(header: &JobHeader) -> ListEntry {
    ListEntry::from(&header.listed())
}

fn expiry_key(org: &OrgId, id: &JobId) -> String {
    format!("{org}/{id}")
}

#[async_trait]
impl JobRecordStore for Jobs {
    async fn create(&self, header: JobHeader) -> Result<JobHeader> {
        let (keyspace, org, id) = (&*self.0, header.org(), &header.id);
        let encoded = encode(&JobRecord::Live(Box::new(header.clone())))?;
        for attempt in 0..retry::ATTEMPTS {
            match self.read(org, id, Read::Serial).await? {
                Some(JobRecord::Live(stored)) => return Ok(*stored),
                Some(JobRecord::Tombstone { .. }) => return Err(Error::not_found(KIND, id)),
                None => {}
            }
            // A compaction may have moved the row of an earlier attempt, but not removed it.
            if attempt == 0 {
                open_turns::replace(keyspace, &OpenJobRow::of(&header), &[]).await?;
                catalogue::insert_new_rows(keyspace, org, header.queue().list(), None, &listed(&header)).await?;
            }
            let sent = keyspace.tables.jobs.create((org, id), header.fence(), encoded.clone()).await?;
            if matches!(sent, ConditionalResult::Applied) {
                return Ok(header);
            }
            retry::pause(attempt, keyspace.random()).await;
        }
        Err(retry::contended("the job"))
    }

    async fn announce(&self, row: OpenJobRow) -> Result<()> {
        open_turns::replace(&self.0, &row, &[]).await
    }

    async fn header(&self, org: &OrgId, id: &JobId) -> Result<Option<JobHeader>> {
        Ok(self.read(org, id, Read::Quorum).await?.and_then(JobRecord::live))
    }

    async fn fence(&self, org: &OrgId, id: &JobId) -> Result<Option<Fence>> {
        self.0.tables.jobs.fence(org, id).await
    }

    async fn write(&self, write: JobWrite) -> Result<JobWritten> {
        let (keyspace, job) = (&*self.0, (write.before.org(), &write.before.id));
        let (before, after) = (listed(&write.before), listed(&write.after));
        let record = encode(&JobRecord::Live(Box::new(write.after.clone())))?;
        let outcome = match &write.outcome {
            Some(outcome) => Some((outcome.item, encode_outcome(outcome)?)),
            None => None,
        };
        let (batch, empty) = (format!("{:032x}", write.batch), encode(&Empty)?);
        catalogue::insert_new_rows(keyspace, job.0, write.after.queue().list(), Some(&before), &after).await?;
        if let Some(at) = write.after.expires_at() {
            let row = JobExpiryRow { org: job.0.clone(), job: job.1.clone(), at };
            let row = SystemRow { at: micros(at), key: expiry_key(job.0, job.1), value: encode(&row)? };
            keyspace.tables.system_rows.put(EXPIRY, row).await?;
        }
        let mut unknown = 0;
        for attempt in 0..retry::ATTEMPTS {
            let (jobs, fences) = (&keyspace.tables.jobs, (write.before.fence(), write.after.fence()));
            let mut statements = vec![jobs.change(job, fences, record.clone()), jobs.batch(job, &batch, empty.clone())];
            if let Some((item, value)) = &outcome {
                statements.push(jobs.outcome(job, *item, value.clone()));
            }
            let answer = match keyspace.commit(statements).await? {
                ConditionalResult::Applied => JobDecision::Answer(JobWritten::Done(Box::new(write.after.clone()))),
                ConditionalResult::Refused => self.decide(&write, &batch).await?,
                ConditionalResult::Unknown(error) => {
                    unknown += 1;
                    if unknown >= retry::UNKNOWN_OUTCOMES_MAX {
                        return Err(error);
                    }
                    self.decide(&write, &batch).await?
                }
            };
            if let JobDecision::Answer(answer) = answer {
                if matches!(answer, JobWritten::Done(_)) {
                    self.remove_old_list_rows(&write, (&before, &after)).await;
                }
                return Ok(answer);
            }
            retry::pause(attempt, keyspace.random()).await;
        }
        Err(retry::contended("the job"))
    }

    async fn outcomes(&self, org: &OrgId, id: &JobId, after: u32, limit: usize) -> Result<Vec<ItemOutcome>> {
        let mut found: Vec<ItemOutcome> = Vec::new();
        while found.len() < limit {
            // An outcome may have 256 KiB, so each read returns a bounded number of outcomes.
            let rows = OUTCOMES_PER_READ.min(limit - found.len());
            let from = found.last().map_or(after, |last| last.item);
            let read = self.0.tables.jobs.outcomes(org, id, from, rows).await?;
            let is_last = read.len() < rows;
            for bytes in read {
                found.push(decode(&bytes)?);
            }
            if is_last {
                break;
            }
        }
        Ok(found)
    }

    async fn list(&self, org: &OrgId, filter: &JobFilter, page: &PageRequest) -> Result<Page<JobHeader>> {
        let conditions = filter.conditions();
        let query = Query::new(filter.queue.list(), &conditions, format!("{conditions:?}"));
        let load = |found: CatalogueRow| self.item(org, filter.queue, &conditions, found);
        catalogue::page(&self.0, org, &query, page, |found| Box::pin(load(found))).await
    }

    async fn delete(&self, org: &OrgId, id: &JobId) -> Result<()> {
        for attempt in 0..retry::ATTEMPTS {
            let header = match self.read(org, id, Read::Serial).await? {
                Some(JobRecord::Live(header)) => header,
                Some(JobRecord::Tombstone { .. }) => return self.empty(org, id).await,
                None => return Ok(()),
            };
            let tombstone = encode(&header.tombstone())?;
            let sent = self.0.tables.jobs.write_tombstone((org, id), header.fence(), tombstone).await?;
            if matches!(sent, ConditionalResult::Applied) {
                return self.settle_removal(&header).await;
            }
            retry::pause(attempt, self.0.random()).await;
        }
        Err(retry::contended("the job"))
    }

    async fn expired(&self, now: Timestamp, limit: usize) -> Result<Vec<(OrgId, JobId)>> {
        let mut found = Vec::new();
        for (row, JobExpiryRow { org, job, at }) in self.0.first_rows(EXPIRY, now, limit).await? {
            match self.read(&org, &job, Read::Quorum).await {
                Ok(Some(JobRecord::Live(header))) if header.expires_at() == Some(at) => found.push((org, job)),
                // The write that entered the row was refused, or the job was deleted.
                Ok(Some(_)) => self.0.tables.system_rows.remove(EXPIRY, row.at, &row.key).await?,
                Ok(None) => {}
                // The sweep reports the job.
                Err(error) if error.reason == Reason::StoredFormat => found.push((org, job)),
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    async fn open(&self, after: Option<&OpenJobRow>, limit: usize) -> Result<Vec<OpenJobRow>> {
        open_turns::scan(&self.0, after, limit).await
    }

    async fn remove_open(&self, rows: &[OpenJobRow]) -> Result<()> {
        open_turns::remove(&self.0, rows).await
    }

    async fn compact_open(&self) -> Result<()> {
        open_turns::compact::<OpenJobRow>(&self.0).await
    }
}

const OUTCOMES_PER_READ: usize = 16;

impl Jobs {
    async fn read(&self, org: &OrgId, id: &JobId, consistency: Read) -> Result<Option<JobRecord>> {
        let found = self.0.tables.jobs.header(org, id, consistency).await?;
        found.map(|bytes| decode(&bytes)).transpose()
    }

    /// Determines the outcome of a write that was refused, or whose outcome is unknown.
    async fn decide(&self, write: &JobWrite, batch: &str) -> Result<JobDecision> {
        let (org, id) = (write.before.org(), &write.before.id);
        // The header is read first: a batch row that is missing afterwards was missing when the header was read.
        let stored = self.read(org, id, Read::Serial).await?;
        if !self.0.tables.jobs.has_batch(org, id, batch).await? {
            return decide(write, stored, false);
        }
        decide(write, self.read(org, id, Read::Serial).await?, true)
    }

    /// Removes the list rows that the job no longer has. A reader repairs rows that stay.
    async fn remove_old_list_rows(&self, write: &JobWrite, (before, after): (&ListEntry, &ListEntry)) {
        let (org, kind) = (write.before.org(), write.before.queue().list());
        let removed = catalogue::remove_old_rows(&self.0, org, kind, before, Some(after), after.version).await;
        if let Err(error) = removed {
            tracing::warn!(%error, job = %write.before.id, "list rows stay until a reader repairs them");
        }
    }

    /// Returns the job of a list row if the row still describes the job; otherwise removes the row.
    async fn item(
        &self,
        org: &OrgId,
        queue: JobQueue,
        conditions: &[Condition],
        found: CatalogueRow,
    ) -> Result<Option<(JobHeader, usize)>> {
        let id: JobId = found.position.id.parse()?;
        let (now, version) = match self.read(org, &id, Read::Quorum).await? {
            Some(JobRecord::Live(header)) => {
                let entry = listed(&header);
                if entry.at == found.position.at && entry.row.matches(conditions) {
                    let bytes = header.size_bytes();
                    return Ok(Some((*header, bytes)));
                }
                (Some(entry.row), entry.version)
            }
            Some(JobRecord::Tombstone { version, .. }) => (None, version.saturating_add(2)),
            None => (None, 0),
        };
        let item = (found.position.at, id.as_str());
        catalogue::repair_keys(&self.0, (org, queue.list()), item, found.keys()?, (now.as_ref(), version)).await?;
        Ok(None)
    }

    /// Executes the steps after a tombstone. A repeated removal executes only [`Self::empty`] again.
    async fn settle_removal(&self, header: &JobHeader) -> Result<()> {
        let (org, id) = (header.org(), &header.id);
        self.empty(org, id).await?;
        let version = header.version.saturating_add(2);
        catalogue::remove_old_rows(&self.0, org, header.queue().list(), &listed(header), None, version).await?;
        if let Some(at) = header.expires_at() {
            self.0.tables.system_rows.remove(EXPIRY, micros(at), &expiry_key(org, id)).await?;
        }
        Ok(())
    }

    /// Removes all rows of a deleted job except the tombstone.
    async fn empty(&self, org: &OrgId, id: &JobId) -> Result<()> {
        for part in JOB_PARTS {
            self.0.tables.jobs.remove_rows((org, id), part, self.0.now()).await?;
        }
        Ok(())
    }
}
