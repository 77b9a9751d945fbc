//! Reads the tables of jobs directly, without the storage adapter.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use folio_history::job::{JobHeader, JobRecord};
use folio_types::JobId;
use futures::TryStreamExt as _;

use super::checker::ObservedJob;
use super::tables::{Tables, read};

/// The group of the rows with the pages of a job is this prefix and the id of the job.
const PAGES: &str = "job_page/";

impl Tables {
    /// Returns the header of every job that is not deleted.
    pub async fn job_headers(&self) -> Result<Vec<JobHeader>> {
        Ok(self.jobs_without_rows().await?.into_values().map(|job| job.header).collect())
    }

    /// Returns the jobs of which the index of open jobs has a row. Omits rows in buckets below the floor, because no sweep reads
    /// them.
    pub async fn indexed_jobs(&self) -> Result<BTreeSet<JobId>> {
        let text = "SELECT bucket FROM open_turn_floor WHERE name = 'jobs'";
        let floor = self.session.query_iter(text, ()).await?.rows_stream::<(i64,)>()?.try_next().await?;
        let text = "SELECT bucket, key FROM open_turns";
        let mut rows = self.session.query_iter(text, ()).await?.rows_stream::<(i64, String)>()?;
        let mut found = BTreeSet::new();
        while let Some((bucket, key)) = rows.try_next().await? {
            // The rows of open turns have longer keys.
            if floor.is_none_or(|(floor,)| bucket >= floor)
                && let [_, job] = key.split('/').collect::<Vec<_>>().as_slice()
            {
                found.insert(job.parse()?);
            }
        }
        Ok(found)
    }

    /// Returns every job that is not deleted.
    pub async fn jobs(&self) -> Result<Vec<ObservedJob>> {
        let (mut jobs, indexed) = (self.jobs_without_rows().await?, self.indexed_jobs().await?);
        type Row = (String, Option<String>, Option<String>, Option<Vec<u8>>);
        let text = "SELECT id, part, key, value FROM jobs";
        let mut rows = self.session.query_iter(text, ()).await?.rows_stream::<Row>()?;
        while let Some((id, part, key, value)) = rows.try_next().await? {
            let (Some(job), Some(key)) = (jobs.get_mut(id.as_str()), key) else { continue };
            match part.as_deref() {
                Some("batch") => job.batches += 1,
                Some("outcome") => {
                    let outcome = read(&value.unwrap_or_default()).with_context(|| format!("outcome {key} of {id}"))?;
                    job.outcomes.push((key.parse()?, outcome));
                }
                _ => {}
            }
        }
        let text = "SELECT part, key, value FROM org_rows";
        let mut rows = self.session.query_iter(text, ()).await?.rows_stream::<(String, String, Vec<u8>)>()?;
        while let Some((group, key, value)) = rows.try_next().await? {
            let Some(job) = group.strip_prefix(PAGES).and_then(|id| jobs.get_mut(id)) else { continue };
            let page = read(&value).with_context(|| format!("page {key} of {group}"))?;
            // A concurrent creation of the job with other items may have stored further pages.
            let set = job.header.pages.as_ref().map(|pages| pages.set.as_str());
            if let Some((of, number)) = key.split_once('/')
                && set == Some(of)
            {
                job.pages.insert(number.parse()?, page);
            }
        }
        for job in jobs.values_mut() {
            job.is_indexed = indexed.contains(&job.id);
        }
        Ok(jobs.into_values().collect())
    }

    /// Returns the jobs by id, with their headers only.
    async fn jobs_without_rows(&self) -> Result<BTreeMap<String, ObservedJob>> {
        type Row = (String, String, Option<i64>, Option<i64>, Option<Vec<u8>>);
        let text = "SELECT DISTINCT org, id, epoch, version, header FROM jobs";
        let mut rows = self.session.query_iter(text, ()).await?.rows_stream::<Row>()?;
        let mut found = BTreeMap::new();
        while let Some((org, id, epoch, version, header)) = rows.try_next().await? {
            let Some(header) = header else { continue };
            let record: JobRecord = read(&header).with_context(|| format!("header of {id}"))?;
            let Some(header) = record.live() else { continue };
            let (epoch, version) = (epoch.unwrap_or(0).cast_unsigned(), version.unwrap_or(0).cast_unsigned());
            let job = ObservedJob {
                org: org.parse()?,
                id: id.parse()?,
                epoch,
                version,
                header,
                outcomes: Vec::new(),
                batches: 0,
                pages: BTreeMap::new(),
                is_indexed: false,
            };
            found.insert(id, job);
        }
        Ok(found)
    }
}
