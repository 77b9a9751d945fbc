//! The traits of tools and their inputs and outputs.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::job::JobLimits;
use folio_history::journal::{Access, CallStatus, WorkingChange, WorkingState};
use folio_llm::Models;
use folio_metering::{BudgetMeter, BudgetScope, SharedMeter};
use folio_resources::Resource;
use folio_storage::{JobStore, ResourceStore, Stores};
use folio_types::op::{Expected, Target};
use folio_types::profile::Subject;
use folio_types::{BudgetPart, CallId, Code, DocumentId, Environment, Error, OrgId, Principal, Reason, limits};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::task::TaskTracker;

use crate::arguments::{self, Argument};
use crate::extraction;
use crate::images::ImageSource;
use crate::ingestion::PassageIngester;
use crate::mcp::McpServers;
use crate::preview::Preview;
use crate::retrieval::Retriever;
use crate::scope::DocumentScope;
use crate::sections::OutlineCache;
pub use crate::spelling::Spellings;

/// Description of a tool for models and clients.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Name, unique in the registry.
    pub name: &'static str,
    pub description: &'static str,
    /// JSON Schema (draft 7) of the arguments.
    pub parameters: Value,
    pub access: Access,
}

/// Dependencies of the tools. One instance per process; cheap to clone.
#[derive(Clone)]
pub struct ToolResources {
    pub stores: Stores,
    pub models: Arc<dyn Models>,
    pub meter: SharedMeter,
    pub environment: Arc<dyn Environment>,
    /// Bounds of extractions.
    pub extraction: extraction::Options,
    /// Limits of the jobs that tools create.
    pub job_limits: JobLimits,
    /// Queue of the hints of these jobs.
    pub job_hints: Arc<dyn JobStore>,
    /// Calls the MCP servers of organizations.
    pub mcp: Arc<dyn McpServers>,
    /// Makes passages of documents.
    pub passages: Arc<dyn PassageIngester>,
    pub outlines: OutlineCache,
    /// Finds passages of documents.
    pub retriever: Arc<dyn Retriever>,
    /// Reads images of documents for models.
    pub images: Arc<dyn ImageSource>,
    /// Owner of the tasks that outlive a dropped call (the settlement of its model call). Shutdown waits for them.
    pub tasks: TaskTracker,
}

impl ToolResources {
    /// Returns the access to a part of a credit budget.
    pub fn budget(&self, org: &OrgId, part: BudgetPart) -> BudgetScope {
        BudgetScope::new(self.stores.budgets(), org.clone(), part)
    }

    /// Returns the resources with a part of a credit budget that pays for the model calls.
    #[must_use]
    pub fn paid_from(self, scope: BudgetScope) -> Self {
        let meter = BudgetMeter::new(Arc::clone(&self.meter), scope, self.tasks.clone());
        Self { meter: Arc::new(meter), ..self }
    }
}

/// One call: its dependencies, its principal and the state of its turn.
#[derive(Clone)]
pub struct CallContext {
    pub resources: ToolResources,
    /// Principal of the turn. Every store access is scoped to its organization.
    pub principal: Principal,
    /// Id of the call, which is the op key of its effect.
    pub call: CallId,
    /// Epoch of the thread, part of the ledger key of model calls.
    pub epoch: u64,
    /// Documents of the thread. The first is the default of `document_id`.
    pub documents: Vec<DocumentId>,
    /// Resource that the turn is about. No argument of a call changes it. None: unknown (an old turn).
    pub subject: Option<Subject>,
    /// Bounds the documents of a turn about the organization, in addition to those of the thread.
    pub scope: DocumentScope,
    pub working: WorkingState,
    /// Model of the turn.
    pub model: String,
    /// The part of a credit budget from which the jobs that the call creates receive their parts. None: no budget.
    pub budget_part: Option<BudgetPart>,
    /// True if the call is only previewed: its plan must write nothing.
    pub is_preview: bool,
}

/// The working state of a profile: one type per profile, which its tools read and replace. A thread stores it with each
/// turn; a fork and a truncation restore it. A later version of the type must read the values of the earlier ones.
pub trait ProfileState: Serialize + DeserializeOwned + Default {
    /// Name of the profile.
    const PROFILE: &'static str;
}

impl CallContext {
    pub(crate) fn store<R: Resource>(&self) -> ResourceStore<R> {
        self.resources.stores.of()
    }

    /// Returns the working state of the profile. Its default, if no call of the visible thread has changed it.
    pub fn state<S: ProfileState>(&self) -> Result<S, ToolError> {
        match &self.working.profile_state {
            None => Ok(S::default()),
            Some(state) => S::deserialize(state.as_ref()).map_err(|error| {
                let message = format!("the working state is not that of profile {}: {error}", S::PROFILE);
                ToolError::Failed(Error::stored_format(message))
            }),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// Result for the model, as JSON.
    pub content: Value,
    pub change: WorkingChange,
    /// `Failed` or `Unknown`: an effect outside of the stores failed, or its outcome is unknown, although its op row is stored.
    pub status: CallStatus,
}

impl ToolOutput {
    /// Creates the output of a successful call that does not change the working state.
    pub fn new(content: Value) -> Self {
        Self { content, change: WorkingChange::default(), status: CallStatus::Ok }
    }

    /// Replaces the working state of the profile.
    ///
    /// # Errors
    /// `TOO_LARGE` if the state exceeds [`PROFILE_STATE_BYTES`](limits::PROFILE_STATE_BYTES).
    pub fn with_state<S: ProfileState>(mut self, state: &S) -> Result<Self, ToolError> {
        let state = serde_json::to_value(state).map_err(|error| {
            let message = format!("the working state of profile {} cannot be serialized: {error}", S::PROFILE);
            ToolError::Failed(Error::internal(message))
        })?;
        let (bytes, max) = (state.to_string().len(), limits::PROFILE_STATE_BYTES);
        if bytes > max {
            let message = format!("the working state would have {bytes} bytes; the maximum is {max}");
            return Err(Error::invalid(Reason::TooLarge, message).into());
        }
        self.change.profile_state = Some(Box::new(state));
        Ok(self)
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The model can correct the call: it receives the message as the result, and the turn continues.
    #[error("{0}")]
    ForModel(String),
    /// A store or a model endpoint failed. The effect of a write may be unknown; recovery determines it.
    #[error(transparent)]
    Failed(Error),
    /// The target changed since the call was planned. Nothing was written; the caller closes the op as `conflict`.
    #[error("the target changed since the call was approved")]
    Conflict,
}

impl ToolError {
    /// Returns the error for arguments that violate rules.
    pub(crate) fn invalid(problems: &[String]) -> Self {
        Self::ForModel(format!("Validation failed:\n- {}", problems.join("\n- ")))
    }
}

/// Maps errors that the model can correct to `ForModel` and all others to `Failed`.
impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        let is_correctable = matches!(
            error.code,
            Code::InvalidArgument | Code::NotFound | Code::AlreadyExists | Code::FailedPrecondition
        );
        if is_correctable && error.reason != Reason::RequestIdConflict {
            Self::ForModel(match error.details.get("id").filter(|_| error.reason == Reason::NameTaken) {
                Some(id) => {
                    format!("{}: {id} has the name. Use that id, update it, or choose another name.", error.message)
                }
                None => error.message,
            })
        } else {
            Self::Failed(error)
        }
    }
}

/// Plan of a write call. Its intent is journaled before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub target: Target,
    /// Version that the deciding write expects.
    pub expected: Expected,
    /// Other resolved values, for `run` and for recovery.
    pub resolved: Value,
}

#[async_trait]
pub trait ReadTool: Send + Sync {
    /// Runs a call. `arguments` match the schema.
    async fn run(&self, context: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError>;
}

#[async_trait]
pub trait WriteTool: Send + Sync {
    /// Resolves the target of the call. Writes nothing.
    async fn plan(&self, context: &CallContext, arguments: &Value) -> Result<Plan, ToolError>;

    /// Returns the states of the resource before and after the call, by the current state and the change of the deciding
    /// write. Writes nothing and calls no model. None: the effect is unknown before the call runs, because the call
    /// calls a model, creates a job, or changes another system. `context` is that of a preview.
    async fn preview(&self, _context: &CallContext, _arguments: &Value) -> Result<Option<Preview>, ToolError> {
        Ok(None)
    }

    /// Executes the deciding write of the plan. Idempotent: a repeated call returns the recorded result. After `Ok`,
    /// the op row of `context.call` is stored.
    async fn run(&self, context: &CallContext, arguments: &Value, plan: &Plan) -> Result<ToolOutput, ToolError>;

    /// Returns the output of a call from its op row: the same output that `run` returned.
    fn output(&self, target: &Target, result: folio_types::op::OpResult, arguments: &Value) -> ToolOutput;

    /// Returns the text for the model after a conflict, such as the current value. None: a standard text.
    async fn conflict(&self, _context: &CallContext, _arguments: &Value) -> Option<String> {
        None
    }
}

#[derive(Clone)]
pub enum ToolKind {
    /// A tool that reads. It runs without approval.
    Read(Arc<dyn ReadTool>),
    /// A tool that writes. It may wait for approval. Its effect happens once.
    Write(Arc<dyn WriteTool>),
    /// The tool that starts child turns. The conversation runs its calls.
    Tasks,
}

#[derive(Clone)]
pub struct Tool {
    pub spec: ToolSpec,
    pub kind: ToolKind,
    /// True if the tool calls models. Its timeout then includes the time limit of model calls.
    pub calls_models: bool,
    /// Members of the result that are ids, to which a later call of the same round may refer.
    pub result_ids: &'static [&'static str],
    pub spellings: Spellings,
}

impl Tool {
    pub(crate) fn new(name: &'static str, description: &'static str, arguments: Vec<Argument>, kind: ToolKind) -> Self {
        let access = match kind {
            ToolKind::Read(_) => Access::ReadOnly,
            ToolKind::Write(_) | ToolKind::Tasks => Access::ReadWrite,
        };
        let spellings = arguments::spellings(&arguments);
        let spec = ToolSpec { name, description, parameters: arguments::object(arguments), access };
        Self { spec, kind, calls_models: false, result_ids: &[], spellings }
    }
}
