//! The trait of a tool, and what a tool is given.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::journal::{Access, WorkingChange, WorkingState};
use folio_llm::Models;
use folio_metering::SharedMeter;
use folio_storage::Stores;
use folio_types::op::{Expected, Target};
use folio_types::{CallId, Code, DocumentId, Environment, Error, Principal, Reason};
use serde_json::Value;
use tokio_util::task::TaskTracker;

use crate::arguments::{self, Argument};
pub use crate::spelling::Spellings;

/// What a tool is, for models and for clients.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: &'static str,
    /// What it does, for a model.
    pub description: &'static str,
    /// JSON Schema (draft 7) of its arguments.
    pub parameters: Value,
    /// What it may touch.
    pub access: Access,
}

/// What every tool may use. One for the process; cheap to clone.
#[derive(Clone)]
pub struct ToolResources {
    /// The stores.
    pub stores: Stores,
    /// The models, for extractions.
    pub models: Arc<dyn Models>,
    /// The meter of model calls.
    pub meter: SharedMeter,
    /// Time and randomness.
    pub environment: Arc<dyn Environment>,
    /// Owns what outlives a call that was dropped (the settlement of its model call); whoever shuts down waits for it.
    pub tasks: TaskTracker,
}

/// One call: on whose behalf, about what.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// Whose turn it is: every store call is scoped to its organization.
    pub principal: Principal,
    /// The call: the op key of its effect.
    pub call: CallId,
    /// The epoch under which it runs (part of the key of model calls that it makes).
    pub epoch: u64,
    /// The thread's documents; a tool about one document takes the first where none is named.
    pub documents: Vec<DocumentId>,
    /// The working state as it is now.
    pub working: WorkingState,
    /// The model of the turn.
    pub model: String,
}

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// For the model: JSON.
    pub content: Value,
    /// How the working state changes.
    pub change: WorkingChange,
}

impl ToolOutput {
    /// A result that leaves the working state alone.
    pub fn new(content: Value) -> Self {
        Self { content, change: WorkingChange::default() }
    }
}

/// Why a call gave nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The model can act on it: it is told, and the turn goes on.
    #[error("{0}")]
    Told(String),
    /// A store or a model endpoint failed: the effect of a write may be unknown, and recovery decides.
    #[error(transparent)]
    Failed(Error),
    /// The target changed since the call was planned; nothing was written. The shell closes the op as `conflict`.
    #[error("it changed since the call was approved")]
    Moved,
}

/// Errors of stores, rules and models, sorted: those that the model can act on are told to it.
impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        let told = matches!(
            error.code,
            Code::InvalidArgument | Code::NotFound | Code::AlreadyExists | Code::FailedPrecondition
        );
        if told && error.reason != Reason::RequestIdConflict { Self::Told(error.message) } else { Self::Failed(error) }
    }
}

/// What a write call is about to change: journaled as its intent before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The aggregate.
    pub target: Target,
    /// What the deciding write expects of it.
    pub expected: Expected,
    /// What else was resolved, for `run` and for recovery.
    pub resolved: Value,
}

/// A tool that reads.
#[async_trait]
pub trait ReadTool: Send + Sync {
    /// Runs a call whose arguments match the schema.
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError>;
}

/// A tool that writes.
#[async_trait]
pub trait WriteTool: Send + Sync {
    /// Resolves what the call will change. Writes nothing.
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError>;

    /// Makes the deciding write for the plan, or finds that it was made: the op row of `context.call` stands after `Ok`.
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError>;

    /// The output of a call whose op row stands as done beside `target`: what `run` gave when it made it.
    fn output(&self, target: &Target, result: folio_types::op::OpResult) -> ToolOutput;
}

/// A tool of either kind.
#[derive(Clone)]
pub enum ToolKind {
    /// Runs at once.
    Read(Arc<dyn ReadTool>),
    /// May wait for a decision; its effect happens once.
    Write(Arc<dyn WriteTool>),
}

/// A tool with its description.
#[derive(Clone)]
pub struct Tool {
    /// What it is.
    pub spec: ToolSpec,
    /// What it does.
    pub kind: ToolKind,
    /// Whether it calls models: it then takes as long as they may.
    pub calls_models: bool,
    /// How its arguments may be written.
    pub spellings: Spellings,
}

impl Tool {
    pub(crate) fn read(
        name: &'static str,
        description: &'static str,
        arguments: Vec<Argument>,
        tool: impl ReadTool + 'static,
    ) -> Self {
        Self::of(name, description, arguments, Access::ReadOnly, ToolKind::Read(Arc::new(tool)))
    }

    pub(crate) fn write(
        name: &'static str,
        description: &'static str,
        arguments: Vec<Argument>,
        tool: impl WriteTool + 'static,
    ) -> Self {
        Self::of(name, description, arguments, Access::ReadWrite, ToolKind::Write(Arc::new(tool)))
    }

    fn of(
        name: &'static str,
        description: &'static str,
        arguments: Vec<Argument>,
        access: Access,
        kind: ToolKind,
    ) -> Self {
        let spellings = arguments::spellings(&arguments);
        let spec = ToolSpec { name, description, parameters: arguments::object(arguments), access };
        Self { spec, kind, calls_models: false, spellings }
    }

    pub(crate) fn calling_models(self) -> Self {
        Self { calls_models: true, ..self }
    }
}
