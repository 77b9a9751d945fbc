//! Declaration of tools: the arguments as a type with one trait. The steps that all tools share are implemented here.

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;

use folio_resources::Resource;
use folio_types::op::{Expected, OpResult, Target};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::{self, Argument};
use crate::decide::{into_result, invalid_plan, recorded_result, write};
use crate::output;
use crate::preview::Preview;
use crate::subject::{ToolResource, plan_existing};
use crate::tool::{CallContext, Plan, ReadTool, Tool, ToolError, ToolKind, ToolOutput, WriteTool};

/// A read call: its arguments and their handler.
#[async_trait]
pub(crate) trait ReadCall: DeserializeOwned + Send + 'static {
    /// Returns the result for the model.
    async fn run(self, context: &CallContext) -> Result<Value, ToolError>;
}

/// A write call: its validated arguments and their handler.
#[async_trait]
pub(crate) trait WriteCall: Sized + Send + Sync + 'static {
    type Target: Resource;
    /// True if [`Self::change`] calls models. A recorded result is looked up before, so that no model call is paid twice.
    const CALLS_MODELS: bool = false;

    /// Parses arguments that match the tool's schema and validates what JSON Schema cannot express.
    fn parse(arguments: &Value) -> Result<Self, ToolError>;

    /// Resolves the target of the write: names to ids, and the expected version. Writes nothing
    /// except the thread's name of a revision ([`crate::subject::name_revision`]).
    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError>;

    /// Returns the change that the deciding write makes.
    async fn change(self, context: &CallContext, plan: &Plan) -> Result<ChangeOf<Self>, ToolError>;

    /// Returns the output of the call from its recorded result. `arguments`: those of the call.
    fn output(target: &Target, result: OpResult, _arguments: &Value) -> ToolOutput {
        output::of(target, result)
    }

    /// Returns the text for the model after a conflict, such as the current value. None: a standard text.
    async fn conflict(&self, _context: &CallContext) -> Option<String> {
        None
    }
}

pub(crate) type ChangeOf<C> = <<C as WriteCall>::Target as Resource>::Change;

pub(crate) fn read_tool<C: ReadCall>(name: &'static str, description: &'static str, arguments: Vec<Argument>) -> Tool {
    Tool::new(name, description, arguments, ToolKind::Read(Arc::new(Reads::<C>(PhantomData))))
}

pub(crate) fn write_tool<C: WriteCall>(
    name: &'static str,
    description: &'static str,
    arguments: Vec<Argument>,
) -> Tool {
    let tool = Tool::new(name, description, arguments, ToolKind::Write(Arc::new(Writes::<C>::new())));
    Tool { result_ids: output::ids(C::Target::KIND), ..tool }
}

pub(crate) fn delete_tool<S: ToolResource>(name: &'static str, description: &'static str, id: Argument) -> Tool {
    Tool { result_ids: &[], ..write_tool::<Delete<S>>(name, description, vec![id]) }
}

struct Reads<C>(PhantomData<fn() -> C>);

#[async_trait]
impl<C: ReadCall> ReadTool for Reads<C> {
    async fn run(&self, context: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        let call: C = arguments::parse(&arguments)?;
        call.run(context).await.map(ToolOutput::new)
    }
}

/// The steps of a write call.
pub(crate) struct Writes<C>(PhantomData<fn() -> C>);

impl<C> Writes<C> {
    pub(crate) const fn new() -> Self {
        Self(PhantomData)
    }
}

#[async_trait]
impl<C: WriteCall> WriteTool for Writes<C> {
    async fn plan(&self, context: &CallContext, arguments: &Value) -> Result<Plan, ToolError> {
        C::parse(arguments)?.plan(context).await
    }

    async fn preview(&self, context: &CallContext, arguments: &Value) -> Result<Option<Preview>, ToolError> {
        if C::CALLS_MODELS {
            return Ok(None);
        }
        let call = C::parse(arguments)?;
        let plan = call.plan(context).await?;
        let id = C::Target::id_in(&plan.target).ok_or_else(invalid_plan)?;
        let before = match plan.expected {
            Expected::Absent => None,
            Expected::Version(_) => {
                let found = context.store::<C::Target>().get(&context.principal.org, &id).await?;
                Some(found.ok_or(ToolError::Conflict)?)
            }
        };
        let change = call.change(context, &plan).await?;
        let write = write(context, arguments, &plan, change);
        let after = C::Target::apply(&id, &write, before.clone())?.after;
        Preview::of(plan.target, before.as_ref(), after.as_ref()).map(Some)
    }

    async fn run(&self, context: &CallContext, arguments: &Value, plan: &Plan) -> Result<ToolOutput, ToolError> {
        let id = C::Target::id_in(&plan.target).ok_or_else(invalid_plan)?;
        // The deciding write of a create finds the recorded result by itself.
        let is_looked_up = C::CALLS_MODELS || plan.expected != Expected::Absent;
        if is_looked_up && let Some(result) = recorded_result(context, arguments, &plan.target).await? {
            return Ok(C::output(&plan.target, result, arguments));
        }
        let change = C::parse(arguments)?.change(context, plan).await?;
        let write = write(context, arguments, plan, change);
        let result = into_result(context.store::<C::Target>().decide(&id, write).await?)?;
        Ok(C::output(&plan.target, result, arguments))
    }

    fn output(&self, target: &Target, result: OpResult, arguments: &Value) -> ToolOutput {
        C::output(target, result, arguments)
    }

    async fn conflict(&self, context: &CallContext, arguments: &Value) -> Option<String> {
        C::parse(arguments).ok()?.conflict(context).await
    }
}

/// The delete call of every subject.
struct Delete<S> {
    id: Option<String>,
    subject: PhantomData<fn() -> S>,
}

#[async_trait]
impl<S: ToolResource> WriteCall for Delete<S> {
    type Target = S;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        let id = arguments.get(S::ARGUMENT).and_then(Value::as_str).map(str::to_owned);
        Ok(Self { id, subject: PhantomData })
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        plan_existing::<S>(context, self.id.as_deref()).await
    }

    async fn change(self, _: &CallContext, _: &Plan) -> Result<S::Change, ToolError> {
        Ok(S::DELETE)
    }
}
