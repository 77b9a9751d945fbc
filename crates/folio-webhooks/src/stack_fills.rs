//! Creates the jobs that fill rows of stacks automatically. Each job is created before the write that causes it.
//!
//! | write | job |
//! |---|---|
//! | the text of a member becomes ready | fills the row of the document |
//! | a document becomes a member by its tags or metadata | fills the row of the document |
//! | columns, members or settings of a stack change | plans a job for all rows with missing cells |
//!
//! Only stacks with `auto_fill` have such jobs. A job whose write was refused or lost finds the stack or the document unchanged, and
//! ends without an effect.

use folio_history::job::{STACK_FILL_KIND, STACK_PLAN_KIND, StackFillInput, StackPlanInput, TagRun, TagRunWrite};
use folio_resources::{Document, Stack, StackFilter};
use folio_storage::{ResourceStore, Stores};
use folio_types::page::PageRequest;
use folio_types::{DocumentId, JobId, OrgId, Result, StackId, Timestamp, UserId};
use serde_json::json;

use crate::follow_up_jobs::{FollowUpJob, FollowUpJobs};

/// Maximum number of stacks whose rows a write of a document fills automatically. Rows of further stacks are filled on request.
// proto: none "a stack fills its rows on request, too"
const STACKS_MAX: usize = 20;
/// Maximum number of stacks with automatic filling that a write of a document reads to find the stacks of the document. Rounded up to
/// a multiple of [`READ_AT_ONCE`].
// proto: none "a stack fills its rows on request, too"
const READ_MAX: usize = 200;
/// Number of stacks of one read.
const READ_AT_ONCE: u32 = 20;

pub(crate) struct StackFills {
    jobs: FollowUpJobs,
    documents: ResourceStore<Document>,
    stacks: ResourceStore<Stack>,
}

impl StackFills {
    pub(crate) fn new(stores: &Stores, jobs: FollowUpJobs) -> Self {
        Self { jobs, documents: stores.of(), stacks: stores.of() }
    }

    /// Creates the jobs that fill the row of a document whose text becomes ready, in each stack of the document except `known`.
    /// Returns these stacks and the ids of the jobs. The caller calls the function before it writes the text, and afterwards again with
    /// the returned stacks as `known`: if the document becomes a member of a stack between the first call and the write, the job of
    /// that change may run before the text is stored.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` or `OVERLOADED`: the caller must not write the text, or must repeat the write.
    pub(crate) async fn of_text(
        &self,
        org: &OrgId,
        id: &DocumentId,
        at: Timestamp,
        known: &[StackId],
    ) -> Result<(Vec<StackId>, Vec<JobId>)> {
        let Some(document) = self.documents.get(org, id).await? else { return Ok((Vec::new(), Vec::new())) };
        let is_filled = |stack: &Stack| !known.contains(&stack.id) && stack.contains(&document);
        let cause = TagRun { at, write: TagRunWrite::Text };
        let (mut filled, mut jobs) = (Vec::new(), Vec::new());
        for stack in self.stacks(org, is_filled).await? {
            jobs.extend(self.fill(&stack, &document, &document.created_by, &cause).await?);
            filled.push(stack.id);
        }
        Ok((filled, jobs))
    }

    /// Creates a job for each stack of which a change makes a document a member, and returns the ids. The caller writes the change
    /// afterwards. `by`: the user on whose behalf the document is changed.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` or `OVERLOADED`: the change must not be written.
    pub(crate) async fn after_document(
        &self,
        before: &Document,
        after: &Document,
        by: &UserId,
        at: Timestamp,
    ) -> Result<Vec<JobId>> {
        if before.tags == after.tags && before.metadata == after.metadata {
            return Ok(Vec::new());
        }
        let user = if *by == UserId::platform() { &after.created_by } else { by };
        let cause = TagRun { at, write: TagRunWrite::Document(after.version) };
        let mut jobs = Vec::new();
        let is_filled = |stack: &Stack| stack.contains(after) && !stack.contains(before);
        for stack in self.stacks(&after.org, is_filled).await? {
            jobs.extend(self.fill(&stack, after, user, &cause).await?);
        }
        Ok(jobs)
    }

    /// Creates the job that plans the filling of a stack after its change, and returns its id. The caller writes the change
    /// afterwards. `before`: None for a new stack.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` or `OVERLOADED`: the change must not be written.
    pub(crate) async fn after_stack(
        &self,
        before: Option<&Stack>,
        after: &Stack,
        by: &UserId,
        at: Timestamp,
    ) -> Result<Option<JobId>> {
        if !Stack::starts_filling(before, after) {
            return Ok(None);
        }
        let user = if *by == UserId::platform() { &after.created_by } else { by };
        let (org, id, version) = (&after.org, &after.id, after.version);
        let identity = json!({ "stack": id, "version": version, "at": at.to_string() }).to_string();
        let job = FollowUpJob {
            id: JobId::derive(&[org.as_str(), STACK_PLAN_KIND, &identity]),
            kind: STACK_PLAN_KIND,
            input: json!(StackPlanInput { version, at }),
            item: id.to_string(),
            at,
            uses_reserve: false,
        };
        self.jobs.create(org, user.clone(), job).await
    }

    /// Returns the newest stacks with automatic filling and columns that fulfill a condition, at most [`STACKS_MAX`].
    async fn stacks(&self, org: &OrgId, is_filled: impl Fn(&Stack) -> bool + Send + Sync) -> Result<Vec<Stack>> {
        let filter = StackFilter { has_auto_fill: true, ..StackFilter::default() };
        let mut request = PageRequest { size: READ_AT_ONCE, ..PageRequest::default() };
        let (mut found, mut read) = (Vec::new(), 0);
        loop {
            let page = self.stacks.list(org, &filter, &request).await?;
            read += page.items.len();
            found.extend(page.items.into_iter().filter(|stack| !stack.columns.is_empty() && is_filled(stack)));
            found.truncate(STACKS_MAX);
            match page.next {
                Some(next) if found.len() < STACKS_MAX && read < READ_MAX => request.token = Some(next),
                _ => return Ok(found),
            }
        }
    }

    /// Creates the job that fills the row of a document.
    async fn fill(&self, stack: &Stack, document: &Document, user: &UserId, cause: &TagRun) -> Result<Option<JobId>> {
        let org = &stack.org;
        let identity = json!({ "stack": stack.id, "document": document.id, "cause": cause }).to_string();
        let input = StackFillInput {
            stack: stack.id.clone(),
            model: None,
            credit_budget: stack.auto_fill.as_ref().and_then(|auto_fill| auto_fill.credit_budget),
            cause: Some(cause.clone()),
        };
        let job = FollowUpJob {
            id: JobId::derive(&[org.as_str(), STACK_FILL_KIND, &identity]),
            kind: STACK_FILL_KIND,
            input: json!(input),
            item: document.id.to_string(),
            at: cause.at,
            uses_reserve: false,
        };
        self.jobs.create(org, user.clone(), job).await
    }
}
