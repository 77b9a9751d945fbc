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

use folio_history::job::{IngestionCause, IngestionInput, JobQueue, TEXT_INGESTION_KIND};
use folio_resources::{Document, Organization};
use folio_storage::{JobStore, PassageStore, ResourceStore, Stores, hint_job};
use folio_types::{DocumentId, IngestionMode, JobId, OrgId, Result, Timestamp, UserId};
use serde_json::json;

use crate::follow_up_jobs::{FollowUpJob, FollowUpJobs};

pub(crate) struct Ingestions {
    jobs: FollowUpJobs,
    passages: PassageStore,
    documents: ResourceStore<Document>,
    organizations: ResourceStore<Organization>,
    hints: Arc<dyn JobStore>,
}

impl Ingestions {
    pub(crate) fn new(stores: &Stores, hints: Arc<dyn JobStore>, jobs: FollowUpJobs) -> Self {
        Self { jobs, passages: stores.passages(), documents: stores.of(), organizations: stores.of(), hints }
    }

    /// Creates the job of a text that is settled, and returns its id. `at`: the time of the text, which the caller writes
    /// afterwards. None: the organization ingests no documents, or has too many open jobs.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` or `OVERLOADED`: the caller must not write the text.
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
                true => self.create(org, id, IngestionMode::Index, (cause, true), None).await,
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
        self.create(org, id, mode, (cause, false), user).await
    }

    /// Creates the job of a change of a document with passages, or of its deletion, and returns its id. The caller writes the change
    /// afterwards. `after`: None if the document is deleted.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` or `OVERLOADED`: the change must not be written.
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
        self.create(org, id, IngestionMode::Index, (cause, true), None).await
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

    /// `uses_reserve`: as [`FollowUpJob::uses_reserve`]; a full disk refuses pages of texts, but neither changes and deletions of documents
    /// nor texts without pages. `user`: the user with whose role the job runs. None: the platform, so that the job does not depend on a
    /// member.
    async fn create(
        &self,
        org: &OrgId,
        id: &DocumentId,
        mode: IngestionMode,
        (cause, uses_reserve): (IngestionCause, bool),
        user: Option<UserId>,
    ) -> Result<Option<JobId>> {
        let write = json!(cause).to_string();
        let at = cause.at;
        let job = FollowUpJob {
            id: JobId::derive(&[org.as_str(), TEXT_INGESTION_KIND, id.as_str(), &write]),
            kind: TEXT_INGESTION_KIND,
            input: json!(IngestionInput { mode, cause: Some(cause), credit_budget: None }),
            item: id.to_string(),
            at,
            uses_reserve,
        };
        // The document records the job before it is created, because it may end before the caller continues.
        self.passages.set_last_ingestion(org, &job.id, std::slice::from_ref(id)).await?;
        self.jobs.create(org, user.unwrap_or_else(UserId::platform), job).await
    }
}
