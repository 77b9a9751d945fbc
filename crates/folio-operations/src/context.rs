//! The components that operations run on, the executor, and the context of one operation.

mod components;
mod perform;
mod resources;
mod subscriptions;

use std::sync::Arc;
use std::time::Duration;

use folio_accounts::Accounts;
use folio_documents::{CleanupHandle, PageBookmark, Uploader};
use folio_history::peer::ConversationPeer;
use folio_jobs::JobControl;
use folio_llm::Catalogue;
use folio_metering::CreditMeter;
use folio_permits::{Amount, Bounds, Permit, Permits};
use folio_providers::Providers;
use folio_resources::quota::Quotas;
use folio_resources::{DictionaryQuestion, Document, Proposal};
use folio_storage::{NodeStore, SharedTurnStore, Stores};
use folio_tools::ToolResources;
use folio_tools::images::NoImages;
use folio_tools::ingestion::NoPassages;
use folio_tools::mcp::McpServers;
use folio_tools::sections::OutlineCache;
use folio_types::op::OpKey;
use folio_types::{DocumentId, Environment, Error, ExtractionId, OrgId, Principal, Reason, Result};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

pub use self::components::Components;
use self::perform::perform;
use crate::caller::Caller;
use crate::declaration::{Access, Audit, Quota};
use crate::document_watch::DocumentState;
use crate::export_permits::ExportPermit;
use crate::followed_list::FollowedList;
use crate::operation::{Call, Operation};
use crate::pending_pollers::Window;
use crate::pending_reviews::PendingReview;
use crate::request::ChangeRequest;
use crate::shared_poller::SharedPollers;
use crate::single_flight::SingleFlight;
use crate::stack_rows::PendingCellReview;

/// Maximum number of administrative changes in progress, including those whose caller has disconnected: in total, and
/// per organization.
const CHANGES: (usize, usize) = (256, 16);
/// Maximum number of changes in progress that call a model endpoint: in total, and per organization.
const MODEL_ENDPOINT_CHANGES: (usize, usize) = (64, 2);
/// Bounds of the journals that are read whole at a time, because each one needs up to 32 MiB of memory. Callers beyond
/// the bounds wait; the organizations take turns.
const JOURNALS: Bounds = Bounds { total: Amount::permits(6), per_key: Amount::permits(2), waiters: 256 };
/// Bounds of the requests that add up model calls at a time.
const USAGES: Bounds = Bounds { total: Amount::permits(8), per_key: Amount::permits(1), waiters: 256 };
/// Bounds of the lists that are sorted or filtered in memory at a time, because each one reads up to 10,000 items.
const SORTED_LISTS: Bounds = Bounds { total: Amount::permits(8), per_key: Amount::permits(2), waiters: 256 };
/// Bounds of the pages of rows of stacks that are read at a time, because each one may have tens of megabytes before it is cut to the
/// size of a response.
const TABLE_PAGES: Bounds = Bounds { total: Amount::permits(32), per_key: Amount::permits(4), waiters: 1_024 };
/// Bounds of the polls at a time for streams of documents and jobs, and of the reads of pending turns for streams. An
/// organization may have thousands of streams. Polls beyond the bounds wait; the organizations take turns.
const STREAM_POLLS: Bounds = Bounds { total: Amount::permits(32), per_key: Amount::permits(2), waiters: 65_536 };

/// Maximum time for which a caller waits for a permit to read a journal or a page of a table, to add up model calls, to sort a list, or
/// to export tables.
const READ_WAIT: Duration = Duration::from_secs(10);
/// Maximum time for which a poll for a stream waits for a permit.
const POLL_WAIT: Duration = Duration::from_secs(300);
/// Delay after which a caller that got no permit may retry.
pub(crate) const RETRY_SOON: Duration = Duration::from_millis(500);

/// Runs operations. Cheap to clone.
#[derive(Clone)]
pub struct Operations {
    inner: Arc<Inner>,
}

struct Inner {
    components: Components,
    changes: Permits<OrgId>,
    model_endpoint_changes: Permits<OrgId>,
    journals: Permits<OrgId>,
    usages: Permits<OrgId>,
    sorted_lists: Permits<OrgId>,
    table_pages: Permits<OrgId>,
    stream_polls: Permits<OrgId>,
    extractions: SingleFlight<ExtractionId>,
    outlines: OutlineCache,
    /// Requests in progress whose outcome is recorded.
    requests: SingleFlight<(OrgId, OpKey)>,
    /// The pollers of the index of pending turns.
    turn_pollers: SharedPollers<OrgId, Window>,
    review_pollers: SharedPollers<OrgId, FollowedList<PendingReview>>,
    proposal_pollers: SharedPollers<OrgId, FollowedList<Proposal>>,
    question_pollers: SharedPollers<OrgId, FollowedList<DictionaryQuestion>>,
    cell_review_pollers: SharedPollers<OrgId, FollowedList<PendingCellReview>>,
    document_pollers: SharedPollers<(OrgId, DocumentId), DocumentState>,
}

impl std::fmt::Debug for Operations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Operations")
    }
}

impl Operations {
    pub fn new(components: Components) -> Self {
        let permits = |(total, each)| Permits::without_queue(Amount::permits(total), Amount::permits(each));
        let (changes, model_endpoint_changes) = (permits(CHANGES), permits(MODEL_ENDPOINT_CHANGES));
        let (extractions, requests) = (SingleFlight::default(), SingleFlight::default());
        let (journals, usages) = (Permits::new(JOURNALS), Permits::new(USAGES));
        let inner = Inner {
            components,
            changes,
            model_endpoint_changes,
            journals,
            usages,
            sorted_lists: Permits::new(SORTED_LISTS),
            table_pages: Permits::new(TABLE_PAGES),
            stream_polls: Permits::new(STREAM_POLLS),
            extractions,
            outlines: OutlineCache::default(),
            requests,
            turn_pollers: SharedPollers::default(),
            review_pollers: SharedPollers::default(),
            proposal_pollers: SharedPollers::default(),
            question_pollers: SharedPollers::default(),
            cell_review_pollers: SharedPollers::default(),
            document_pollers: SharedPollers::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the maximum size of a document in bytes.
    pub fn document_bytes_max(&self) -> u64 {
        self.inner.components.uploader.max_bytes()
    }

    /// Runs an operation for a caller.
    ///
    /// A recorded operation runs in a separate task with a permit of its organization, so that a disconnected caller or
    /// a deadline cannot prevent the audit entry after the change.
    ///
    /// # Errors
    /// The errors of [`Caller::authorize`]; `OVERLOADED` if no permit is free; the errors of the operation.
    pub async fn run<O: Operation>(&self, caller: &Caller, call: Call<O>) -> Result<O::Output> {
        caller.authorize(&O::DECLARATION)?;
        let Call { operation, request_id } = call;
        let environment = self.inner.components.environment.as_ref();
        let caller = match O::DECLARATION.access {
            // The organization that a request selects must not change the effect of its repetition.
            Access::Account => caller.without_organization(),
            Access::Organization | Access::Installation | Access::Public => caller.clone(),
        };
        let request = ChangeRequest::new(environment, &caller.principal, request_id, &operation)?;
        let quota = O::DECLARATION.quota;
        let mut context = Context { operations: self.clone(), caller, request, quota };
        let tenant = operation.tenant(&context)?;
        context.request = context.request.in_tenant(tenant);
        match O::DECLARATION.audit {
            Audit::Unrecorded | Audit::ByOperation => Box::pin(perform(operation, context)).await,
            Audit::Recorded => {
                let permit = permit(&self.inner.changes, context.principal())?;
                let change = async move {
                    let _permit = permit;
                    perform(operation, context).await
                };
                let ended = self.inner.components.tasks.spawn(change.in_current_span()).await;
                ended
                    .map_err(|_| Error::internal("the task of an administrative change panicked or was cancelled"))
                    .flatten()
            }
        }
    }
}

fn permit(permits: &Permits<OrgId>, principal: &Principal) -> Result<Permit<OrgId>> {
    permits.try_acquire(&principal.counted_as(), 0).map_err(|_| {
        let message = "too many administrative changes are in progress, of the organization or in total";
        Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_SOON)
    })
}

/// Waits for a permit of an organization to poll for a stream. Error: `OVERLOADED`.
pub(crate) async fn poll_permit(polls: &Permits<OrgId>, org: &OrgId) -> Result<Permit<OrgId>> {
    polls.acquire(org, 1, Instant::now() + POLL_WAIT).await.map_err(|_| {
        let message = "too many streams, of the organization or in total";
        Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_SOON)
    })
}

#[derive(Clone)]
pub struct Context {
    operations: Operations,
    pub caller: Caller,
    /// Identity of the request, which makes a change idempotent.
    pub request: ChangeRequest,
    quota: Quota,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl Context {
    fn components(&self) -> &Components {
        &self.operations.inner.components
    }

    /// Fails if the declaration of the operation does not state the quota that a component counts against.
    fn require(&self, quota: Quota) -> Result<()> {
        if self.quota.covers(quota) {
            return Ok(());
        }
        Err(Error::internal(format!("the operation counts against {quota:?}, but declares {:?}", self.quota)))
    }

    pub fn stores(&self) -> &Stores {
        &self.components().stores
    }

    /// The outlines of the texts in use.
    pub(crate) fn outlines(&self) -> &OutlineCache {
        &self.operations.inner.outlines
    }

    /// Reaches the conversations of all nodes, for requests that start no work of a turn.
    pub fn conversations(&self) -> &dyn ConversationPeer {
        self.components().conversations.as_ref()
    }

    /// Reaches the conversations of all nodes, for requests that start work of a turn. The owner of the thread counts
    /// the turn and its model calls.
    ///
    /// # Errors
    /// The operation does not declare [`Quota::Turns`].
    pub fn turn_runner(&self) -> Result<&dyn ConversationPeer> {
        self.require(Quota::Turns).map(|()| self.conversations())
    }

    pub fn open_turns(&self) -> &dyn SharedTurnStore {
        self.components().open_turns.as_ref()
    }

    /// Waits for a permit of the caller's organization to poll for a stream. Error: `OVERLOADED`.
    pub(crate) async fn poll_permit(&self) -> Result<Permit<OrgId>> {
        poll_permit(&self.operations.inner.stream_polls, &self.principal().org).await
    }

    /// Reads and changes jobs.
    pub fn jobs(&self) -> &JobControl {
        &self.components().jobs
    }

    /// Creates jobs whose items call models. The nodes that run them count the model calls.
    ///
    /// # Errors
    /// The operation does not declare [`Quota::ModelCalls`].
    pub fn job_creator(&self) -> Result<&JobControl> {
        self.require(Quota::ModelCalls).map(|()| self.jobs())
    }

    pub fn nodes(&self) -> Option<&dyn NodeStore> {
        self.components().nodes.as_deref()
    }

    /// Stores uploaded files and counts them against the quotas.
    ///
    /// # Errors
    /// The operation does not declare [`Quota::Storage`].
    pub fn uploader(&self) -> Result<&Uploader> {
        self.require(Quota::Storage).map(|()| &self.components().uploader)
    }

    /// Submits a stored document to ingestion again. Its bytes already count against the quotas.
    pub async fn read_again(&self, document: &Document) -> Result<()> {
        self.components().uploader.read_again(document).await
    }

    /// Reads the bookmarks of a stored PDF.
    pub async fn bookmarks(&self, document: &Document) -> Result<Vec<PageBookmark>> {
        self.components().uploader.bookmarks(document).await
    }

    /// The models that the caller's organization may use.
    pub async fn catalogue(&self) -> Result<Arc<Catalogue>> {
        self.components().models.catalogue(&self.principal().org).await
    }

    pub fn providers(&self) -> &Providers {
        &self.components().providers
    }

    pub(crate) fn mcp(&self) -> &dyn McpServers {
        self.components().mcp.as_ref()
    }

    pub fn credit(&self) -> &CreditMeter {
        &self.components().credit
    }

    pub fn clean_up(&self) -> &CleanupHandle {
        &self.components().clean_up
    }

    /// The passwords of users, and the bound on failed sign-ins.
    ///
    /// # Errors
    /// `USERS_DISABLED`.
    pub fn accounts(&self) -> Result<&Accounts> {
        self.components().accounts.as_ref().ok_or_else(|| {
            let message = "this installation has no users that sign in: set users.enabled";
            Error::precondition(Reason::UsersDisabled, message)
        })
    }

    pub fn default_quotas(&self) -> Quotas {
        self.components().quotas
    }

    pub fn environment(&self) -> &dyn Environment {
        self.components().environment.as_ref()
    }

    pub fn principal(&self) -> &Principal {
        &self.caller.principal
    }

    /// Returns the organization whose audit log records the operation. The log of the first organization, which is that
    /// of the platform's administrators, records what concerns no organization.
    pub(crate) fn audit_org(&self) -> OrgId {
        if self.caller.has_organization() { self.principal().org.clone() } else { OrgId::first() }
    }

    /// The tasks that outlive a dropped call.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.components().tasks
    }

    /// Extractions in progress, by the id of the extraction that they create.
    pub fn running_extractions(&self) -> &SingleFlight<ExtractionId> {
        &self.operations.inner.extractions
    }

    /// Returns a permit of the caller's organization to call a model endpoint as part of an administrative change.
    /// Error: `OVERLOADED`.
    pub fn model_endpoint_permit(&self) -> Result<Permit<OrgId>> {
        permit(&self.operations.inner.model_endpoint_changes, self.principal())
    }

    /// Waits for a permit of the caller's organization to read a whole journal. Error: `OVERLOADED`.
    pub(crate) async fn journal_permit(&self) -> Result<Permit<OrgId>> {
        self.read_permit(&self.operations.inner.journals, "threads are read with a filter").await
    }

    /// Waits for a permit of the caller's organization to add up model calls. Error: `OVERLOADED`.
    pub(crate) async fn usage_permit(&self) -> Result<Permit<OrgId>> {
        self.read_permit(&self.operations.inner.usages, "requests add up model calls").await
    }

    /// Waits for a permit of the caller's organization to sort a list in memory. Error: `OVERLOADED`.
    pub(crate) async fn sorted_list_permit(&self) -> Result<Permit<OrgId>> {
        self.read_permit(&self.operations.inner.sorted_lists, "lists are sorted").await
    }

    /// Waits for a permit of the caller's organization to read a page of rows of a stack. Error: `OVERLOADED`.
    pub(crate) async fn table_page_permit(&self) -> Result<Permit<OrgId>> {
        self.read_permit(&self.operations.inner.table_pages, "pages of tables are read").await
    }

    /// Waits for a permit of the caller's organization to write the file of an export. Error: `OVERLOADED`.
    pub(crate) async fn export_permit(&self) -> Result<ExportPermit> {
        let exports = &self.components().exports;
        let written = self.read_permit(&exports.written, "exports of tables run").await?;
        Ok(exports.begin(&self.principal().org, written))
    }

    async fn read_permit(&self, permits: &Permits<OrgId>, what: &str) -> Result<Permit<OrgId>> {
        permits.acquire(&self.principal().org, 1, Instant::now() + READ_WAIT).await.map_err(|_| {
            let message = format!("too many {what}, of the organization or in total");
            Error::exhausted(Reason::Overloaded, message).retry_after(RETRY_SOON)
        })
    }

    /// The resources that the extraction engine requires. Their meter counts model calls.
    ///
    /// # Errors
    /// The operation does not declare [`Quota::ModelCalls`].
    pub fn tool_resources(&self) -> Result<ToolResources> {
        self.require(Quota::ModelCalls)?;
        Ok(self.preview_resources())
    }

    /// Returns the resources of tools for previews, which call no model.
    pub(crate) fn preview_resources(&self) -> ToolResources {
        let components = self.components();
        ToolResources {
            stores: components.stores.clone(),
            models: Arc::clone(&components.models),
            meter: Arc::clone(&components.meter),
            environment: Arc::clone(&components.environment),
            extraction: components.extraction.clone(),
            job_limits: components.jobs.limits(),
            job_hints: components.jobs.hints().queue(),
            mcp: Arc::clone(&components.mcp),
            // Operations make no passages: the jobs and the agents of the nodes do.
            passages: Arc::new(NoPassages),
            outlines: self.operations.inner.outlines.clone(),
            retriever: folio_knowledge::retriever(components.knowledge.as_ref()),
            images: Arc::new(NoImages),
            tasks: components.tasks.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn invariant_10_polls_for_the_streams_of_one_organization_leave_permits_for_others() {
        let (polls, loud, quiet) = (Permits::new(STREAM_POLLS), OrgId::derive(&["loud"]), OrgId::derive(&["quiet"]));
        let active = [poll_permit(&polls, &loud).await.unwrap(), poll_permit(&polls, &loud).await.unwrap()];
        let mut third = std::pin::pin!(poll_permit(&polls, &loud));
        assert!(futures::poll!(&mut third).is_pending());
        drop(poll_permit(&polls, &quiet).await.unwrap());
        drop(active);
        drop(third.await.unwrap());
    }

    #[test]
    fn invariant_10_pages_of_tables_of_one_organization_leave_permits_for_others() {
        let (pages, loud, quiet) = (Permits::new(TABLE_PAGES), OrgId::derive(&["loud"]), OrgId::derive(&["quiet"]));
        let active: Vec<_> = std::iter::from_fn(|| pages.try_acquire(&loud, 0).ok()).collect();
        assert_eq!(active.len(), TABLE_PAGES.per_key.permits);
        assert!(pages.try_acquire(&quiet, 0).is_ok());
    }
}
