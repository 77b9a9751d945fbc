//! Creates the jobs that run a prompt on a document because both have a tag in common, and the job that makes a proposal, before
//! the write that causes them.
//!
//! A job whose write was refused or lost finds the document unchanged, and ends without an effect.

use std::sync::Arc;

use folio_history::job::{EXTRACTION_KIND, ExtractionInput, JobQueue, TagRun, TagRunWrite};
use folio_resources::{Document, Organization, Prompt, PromptFilter};
use folio_storage::{JobStore, ResourceStore, Stores, hint_job};
use folio_types::page::{Page, PageRequest};
use folio_types::{DocumentId, JobId, OrgId, Result, TagId, Timestamp, UserId};
use futures::future::try_join_all;
use serde_json::json;

use crate::auto_create;
use crate::counters::TOO_MANY_PROMPTS;
use crate::follow_up_jobs::{FollowUpJob, FollowUpJobs};

/// Maximum number of prompts that run on a document after one write. Further ones do not run.
// proto: Organization.tag_runs_disabled "at most {} prompts"
const PROMPTS_MAX: u32 = 20;

pub(crate) struct TagRuns {
    jobs: FollowUpJobs,
    documents: ResourceStore<Document>,
    organizations: ResourceStore<Organization>,
    prompts: ResourceStore<Prompt>,
    hints: Arc<dyn JobStore>,
}

impl TagRuns {
    pub(crate) fn new(stores: &Stores, hints: Arc<dyn JobStore>, jobs: FollowUpJobs) -> Self {
        Self { jobs, documents: stores.of(), organizations: stores.of(), prompts: stores.of(), hints }
    }

    /// Creates the job that makes a proposal for a document whose text is settled, and returns its id. `at`: the time of the text,
    /// which the caller writes afterwards. None: the upload requested no proposal, or the organization has too many open jobs.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` or `OVERLOADED`: the caller must not write the text.
    pub(crate) async fn proposal_of_text(&self, org: &OrgId, id: &DocumentId, at: Timestamp) -> Result<Option<JobId>> {
        let Some(document) = self.documents.get(org, id).await? else { return Ok(None) };
        auto_create::create(&self.jobs, &document, at).await
    }

    /// Creates the jobs of a text that becomes ready, for the tags of the document except `known`. Returns these tags and the ids
    /// of the jobs. `at`: the time of the text. The caller calls it before it writes the text, and again afterwards: a document
    /// that gets a tag between the first call and the write may have no text when the job of the tag runs.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` or `OVERLOADED`: the caller must not write the text, or must repeat the write.
    pub(crate) async fn of_text(
        &self,
        org: &OrgId,
        id: &DocumentId,
        at: Timestamp,
        known: &[TagId],
    ) -> Result<(Vec<TagId>, Vec<JobId>)> {
        let Some(document) = self.documents.get(org, id).await? else { return Ok((Vec::new(), Vec::new())) };
        let tags: Vec<TagId> = document.tags.iter().filter(|tag| !known.contains(tag)).cloned().collect();
        let cause = TagRun { at, write: TagRunWrite::Text };
        let jobs = self.create(&document, &tags, &document.created_by, &cause).await?;
        Ok((tags, jobs))
    }

    /// Creates the jobs of a change that adds tags to a document, and returns their ids. The caller writes the change
    /// afterwards. `by`: the user on whose behalf the document is changed. The jobs of a change by the platform run for the user
    /// who uploaded the document.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` or `OVERLOADED`: the change must not be written.
    pub(crate) async fn after_tags(
        &self,
        before: &Document,
        after: &Document,
        by: &UserId,
        at: Timestamp,
    ) -> Result<Vec<JobId>> {
        let added: Vec<TagId> = after.tags.iter().filter(|tag| !before.tags.contains(tag)).cloned().collect();
        let user = if *by == UserId::platform() { &after.created_by } else { by };
        let cause = TagRun { at, write: TagRunWrite::Document(after.version) };
        self.create(after, &added, user, &cause).await
    }

    /// Adds hints of jobs, so that nodes start them at once. The caller has written what causes them.
    pub(crate) async fn publish(&self, org: &OrgId, jobs: &[JobId]) {
        for job in jobs {
            hint_job(&*self.hints, JobQueue::Work, org, job).await;
        }
    }

    /// Creates a job for each prompt that has one of the tags.
    async fn create(&self, document: &Document, tags: &[TagId], user: &UserId, cause: &TagRun) -> Result<Vec<JobId>> {
        if tags.is_empty() {
            return Ok(Vec::new());
        }
        let org = &document.org;
        let filter = PromptFilter { any_tag: tags.to_vec(), ..PromptFilter::default() };
        let request = PageRequest { size: PROMPTS_MAX, ..PageRequest::default() };
        let Page { items: prompts, total, .. } = self.prompts.list(org, &filter, &request).await?;
        if prompts.is_empty() {
            return Ok(Vec::new());
        }
        let organization = self.organizations.get(&OrgId::platform(), org).await?;
        if organization.is_some_and(|organization| organization.tag_runs.disabled) {
            return Ok(Vec::new());
        }
        let refused = total.saturating_sub(PROMPTS_MAX.into());
        self.jobs.counters.count_refused_jobs(EXTRACTION_KIND, TOO_MANY_PROMPTS, refused);
        let created = prompts.iter().map(|prompt| self.create_one(document, prompt, user, cause));
        Ok(try_join_all(created).await?.into_iter().flatten().collect())
    }

    /// Creates the job of one prompt. None: the organization has too many open jobs.
    async fn create_one(
        &self,
        document: &Document,
        prompt: &Prompt,
        user: &UserId,
        cause: &TagRun,
    ) -> Result<Option<JobId>> {
        let (org, revid) = (&document.org, &prompt.latest.revid);
        let identity = json!({ "prompt": revid, "document": document.id, "cause": cause }).to_string();
        let input = ExtractionInput { tag_run: Some(cause.clone()), ..ExtractionInput::new(revid.clone()) };
        let job = FollowUpJob {
            id: JobId::derive(&[org.as_str(), "tag run", &identity]),
            kind: EXTRACTION_KIND,
            input: json!(input),
            item: document.id.to_string(),
            at: cause.at,
            uses_reserve: false,
        };
        self.jobs.create(org, user.clone(), job).await
    }
}
