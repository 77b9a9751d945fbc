//! Faults of [`JobRecordStore`].

use async_trait::async_trait;
use folio_history::job::{JobHeader, JobWrite, JobWritten, OpenJobRow};
use folio_history::thread::Fence;
use folio_storage::JobRecordStore;
use folio_types::{JobId, OrgId, Result};

use crate::layer::JobRecordLayer;

/// Maximum number of rows that a fault reads from the index of open jobs.
const ALL: usize = 100_000;

#[derive(Default)]
pub(super) struct JobFenceOff;

#[async_trait]
impl JobRecordLayer for JobFenceOff {
    async fn write(&self, below: &dyn JobRecordStore, write: JobWrite) -> Result<JobWritten> {
        match below.write(write.clone()).await? {
            JobWritten::Refused(stored) => {
                let (epoch, version) = (stored.epoch.max(write.after.epoch), stored.version + 1);
                let after = JobHeader { epoch, version, ..write.after };
                below.write(JobWrite { before: *stored, after, ..write }).await
            }
            done @ JobWritten::Done(_) => Ok(done),
        }
    }
}

#[derive(Default)]
pub(super) struct OpenJobRowMissing;

#[async_trait]
impl JobRecordLayer for OpenJobRowMissing {
    async fn create(&self, below: &dyn JobRecordStore, header: JobHeader) -> Result<JobHeader> {
        let stored = below.create(header).await?;
        let mut rows = below.open(None, ALL).await?;
        rows.retain(|row| row.job == stored.id);
        below.remove_open(&rows).await?;
        Ok(stored)
    }
}

#[derive(Default)]
pub(super) struct JobNotAnnounced;

#[async_trait]
impl JobRecordLayer for JobNotAnnounced {
    async fn announce(&self, _: &dyn JobRecordStore, _: OpenJobRow) -> Result<()> {
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct ItemOutcomeMissing;

#[async_trait]
impl JobRecordLayer for ItemOutcomeMissing {
    async fn write(&self, below: &dyn JobRecordStore, write: JobWrite) -> Result<JobWritten> {
        below.write(JobWrite { outcome: None, ..write }).await
    }
}

#[derive(Default)]
pub(super) struct JobFenceOutdated;

#[async_trait]
impl JobRecordLayer for JobFenceOutdated {
    async fn fence(&self, below: &dyn JobRecordStore, org: &OrgId, id: &JobId) -> Result<Option<Fence>> {
        let fence = below.fence(org, id).await?;
        Ok(fence.map(|fence| Fence { version: fence.version.saturating_sub(1), ..fence }))
    }
}
