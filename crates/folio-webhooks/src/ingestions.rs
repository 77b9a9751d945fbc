//! Creates the jobs that keep the passages of a document current, before the writes that cause them.
//!
//! | write | job |
//! |---|---|
//! | a text becomes ready | ingests the document, unless the organization disabled it |
//! | a document turns out to have no text | stores the keys under which links find it, unless the organization disabled ingestions |
//! | the text of a document with passages is replaced by none | removes the passages |
//! | the name, tags or metadata of a document with passages change | writes the passages with them |
//! | a document with passages is deleted | removes the passages |
//!
//! A document whose ingestion was requested counts as one with passages: the ingestion may be in progress, and may end before the
//! write.
//!
//! A job whose write was refused or lost finds the document unchanged, and ends without an effect.

use std::sync::Arc;

use folio_history::job::{IngestionCause, IngestionInput, JobLimits, JobQueue, NewJob, TEXT_INGESTION_KIND};
use folio_resources::{Document, Organization};
use folio_storage::{
    JobPageStore, JobRecordStore, JobStore, PassageStore, ResourceStore, Stores, create_job, hint_job,
};
use folio_types::{DocumentId, IngestionMode, JobId, OrgId, Principal, Result, Role, Timestamp, UserId};
use serde_json::json;

use crate::counters::Counters;
use crate::outbox::is_store_failure;

pub(crate) struct Ingestions {
    jobs: Arc<dyn JobRecordStore>,
    pages: JobPageStore,
    passages: PassageStore,
    documents: ResourceStore<Document>,
    organizations: ResourceStore<Organization>,
    hints: Arc<dyn JobStore>,
    limits: JobLimits,
    counters: Counters,
}

impl Ingestions {
    pub(crate) fn new(stores: &Stores, hints: Arc<dyn JobStore>, limits: JobLimits, counters: Counters) -> Self {
        Self {
            jobs: Arc::clone(&stores.jobs),
            pages: stores.job_pages(),
            passages: stores.passages(),
            documents: stores.of(),
            organizations: stores.of(),
            hints,
            limits,
            counters,
        }
    }

    /// Creates the job of a text that is settled, and returns its id. `at`: the time of the text, which the caller writes
    /// afterwards. None: the organization ingests no documents, or has too many open jobs.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`: the caller must not write the text.
    pub(crate) async fn of_text(
        &self,
        org: &OrgId,
        id: &DocumentId,
        (at, is_ready): (Timestamp, bool),
    ) -> Result<Option<JobId>> {
        let cause = IngestionCause { at, version: None };
        let organization = self.organizations.get(&OrgId::platform(), org).await?;
        let mode = organization.map_or(IngestionMode::Off, |organization| organization.ingestion);
        if !is_ready {
            return match mode != IngestionMode::Off || self.may_have_passages(org, id).await? {
                true => self.create(org, id, IngestionMode::Index, cause, None).await,
                false => Ok(None),
            };
        }
        let user = match mode {
            IngestionMode::Off => return Ok(None),
            IngestionMode::Index => None,
            // Agents work with the permissions of the user who uploaded the document.
            IngestionMode::Fast | IngestionMode::Agentic => {
                let Some(document) = self.documents.get(org, id).await? else { return Ok(None) };
                Some(document.created_by)
            }
        };
        self.create(org, id, mode, cause, user).await
    }

    /// Creates the job of a change of a document with passages, or of its deletion, and returns its id. The caller writes the change
    /// afterwards. `after`: None if the document is deleted.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`: the change must not be written.
    pub(crate) async fn of_change(
        &self,
        before: &Document,
        after: Option<&Document>,
        at: Timestamp,
    ) -> Result<Option<JobId>> {
        let is_changed = after.is_none_or(|after| {
            (&after.name, &after.tags, &after.metadata) != (&before.name, &before.tags, &before.metadata)
        });
        let (org, id) = (&before.org, &before.id);
        if !is_changed || !self.may_have_passages(org, id).await? {
            return Ok(None);
        }
        let version = after.map_or(before.version.saturating_add(1), |after| after.version);
        let cause = IngestionCause { at, version: Some(version) };
        self.create(org, id, IngestionMode::Index, cause, None).await
    }

    async fn may_have_passages(&self, org: &OrgId, id: &DocumentId) -> Result<bool> {
        let has_passages = self.passages.head(org, id).await?.is_some();
        Ok(has_passages || self.passages.last_ingestion(org, id).await?.is_some())
    }

    /// Adds the hint of a job, so that a node starts it at once. The caller has written what causes it.
    pub(crate) async fn publish(&self, org: &OrgId, job: Option<&JobId>) {
        if let Some(job) = job {
            hint_job(&*self.hints, JobQueue::Ingestions, org, job).await;
        }
    }

    /// `user`: the user with whose role the job runs. None: the platform, so that the job does not depend on a member.
    async fn create(
        &self,
        org: &OrgId,
        id: &DocumentId,
        mode: IngestionMode,
        cause: IngestionCause,
        user: Option<UserId>,
    ) -> Result<Option<JobId>> {
        let write = json!(cause).to_string();
        let job = JobId::derive(&[org.as_str(), TEXT_INGESTION_KIND, id.as_str(), &write]);
        let at = cause.at;
        let new = NewJob {
            id: job.clone(),
            principal: Principal::new(org.clone(), user.unwrap_or_else(UserId::platform), Role::Member),
            kind: TEXT_INGESTION_KIND.to_owned(),
            input: json!(IngestionInput { mode, cause: Some(cause), credit_budget: None }),
            items: vec![id.to_string()],
            running_max: self.limits.running_time,
            at,
        };
        // Recorded first: the job may end before the caller continues.
        self.passages.set_last_ingestion(org, &job, std::slice::from_ref(id)).await?;
        match create_job(&*self.jobs, &self.pages, &self.limits, new).await {
            Ok(header) => Ok(Some(header.id)),
            Err(error) if is_store_failure(&error) => Err(error),
            // A full queue must not prevent the change of a document.
            Err(error) => {
                self.counters.count_refused_jobs(TEXT_INGESTION_KIND, error.reason.as_str(), 1);
                tracing::warn!(%error, document = %id, "the passages of a document are not updated");
                Ok(None)
            }
        }
    }
}
