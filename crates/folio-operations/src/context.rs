//! The components that operations run on, the executor, and the context of one operation.

mod permits;
mod resources;
mod subscriptions;

use std::sync::Arc;

use folio_accounts::Accounts;
use folio_documents::{CleanupHandle, PageBookmark, Uploader};
use folio_history::peer::{ConversationPeer, SharedPeer};
use folio_jobs::JobControl;
use folio_knowledge::Knowledge;
use folio_llm::{Catalogue, Models};
use folio_metering::{CreditMeter, SharedMeter};
use folio_permits::{Amount, Permit, Permits};
use folio_providers::Providers;
use folio_resources::quota::Quotas;
use folio_resources::{DictionaryQuestion, Document, Proposal};
use folio_storage::{NodeStore, SharedTurnStore, Stores};
use folio_tools::images::NoImages;
use folio_tools::ingestion::NoPassages;
use folio_tools::mcp::McpServers;
use folio_tools::sections::OutlineCache;
use folio_tools::{ToolResources, extraction};
use folio_types::op::OpKey;
use folio_types::{DocumentId, Environment, Error, ExtractionId, OrgId, Principal, Reason, Result};
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

pub use self::permits::RunningExports;
pub(crate) use self::permits::poll_permit;
use self::permits::{CHANGES, JOURNALS, MODEL_ENDPOINT_CHANGES, SORTED_LISTS, STREAM_POLLS, USAGES, permit};
use crate::audit::AuditedChange;
use crate::caller::Caller;
use crate::declaration::{Access, Audit, Idempotency, Quota};
use crate::document_watch::DocumentState;
use crate::followed_list::FollowedList;
use crate::operation::{Call, Operation};
use crate::pending_pollers::Window;
use crate::pending_reviews::PendingReview;
use crate::request::ChangeRequest;
use crate::shared_poller::SharedPollers;
use crate::single_flight::SingleFlight;
use crate::stack_rows::PendingCellReview;

#[derive(Clone)]
pub struct Components {
    pub stores: Stores,
    /// Reaches the conversations of all nodes.
    pub conversations: SharedPeer,
    /// The open turns, as their owners published them.
    pub open_turns: Arc<dyn SharedTurnStore>,
    /// The membership in the store of `open_turns`. None: no other process uses the store.
    pub nodes: Option<Arc<dyn NodeStore>>,
    pub models: Arc<dyn Models>,
    /// Providers that organizations configure.
    pub providers: Providers,
    /// Calls the MCP servers of organizations.
    pub mcp: Arc<dyn McpServers>,
    /// Counts and charges model calls.
    pub meter: SharedMeter,
    /// Balances and grants.
    pub credit: CreditMeter,
    pub environment: Arc<dyn Environment>,
    /// Bounds of extractions.
    pub extraction: extraction::Options,
    /// The passages of documents and their index. None: this process has no index.
    pub knowledge: Option<Knowledge>,
    /// The jobs of all nodes.
    pub jobs: JobControl,
    pub uploader: Uploader,
    pub exports: RunningExports,
    /// Starts the clean-up after a deletion.
    pub clean_up: CleanupHandle,
    /// Passwords of users. None: the installation has no users that sign in.
    pub accounts: Option<Accounts>,
    /// The quotas of organizations that have no quotas of their own.
    pub quotas: Quotas,
    /// The tasks that outlive a dropped call; the drain waits for them.
    pub tasks: TaskTracker,
}

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

/// Runs an authorized operation. Writes the audit entries and the record of the outcome that its declaration requires.
async fn perform<O: Operation>(operation: O, context: Context) -> Result<O::Output> {
    let (declaration, request, stores) = (&O::DECLARATION, &context.request, context.stores());
    let record = match declaration.audit {
        Audit::Unrecorded | Audit::ByOperation => None,
        Audit::Recorded => Some(operation.audit(&context).await?),
    };
    let records_outcome = declaration.idempotency == Idempotency::Outcome && request.is_repeatable();
    // A request that is repeated while the first one runs waits for its outcome.
    let key = (context.principal().org.clone(), request.key());
    let _guard = if records_outcome { Some(context.operations.inner.requests.acquire(&key).await) } else { None };
    if records_outcome && let Some(outcome) = request.begin(stores, declaration.name).await? {
        return operation.replay(&context, outcome).await;
    }
    let run = Box::pin(operation.run(&context));
    let output = match record {
        None => run.await?,
        Some(record) => {
            let change = AuditedChange::new(declaration, &context);
            change.run(stores.audit.as_ref(), context.environment(), record, run).await?
        }
    };
    if records_outcome {
        let outcome = O::to_outcome(&output);
        debug_assert!(outcome.is_ok(), "{} declares an outcome and has none", declaration.name);
        let recorded = match outcome {
            Ok(outcome) => request.complete(stores, &outcome).await,
            Err(error) => Err(error),
        };
        if let Err(error) = recorded {
            let operation = declaration.name;
            tracing::warn!(operation, %error, "the outcome of a request is not recorded; a repeated request runs the operation again");
        }
    }
    Ok(output)
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
