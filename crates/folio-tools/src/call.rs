//! What a tool is made of: its arguments as a type, and what is done with them. Everything else is the same for all and
//! stands here once.

use std::marker::PhantomData;

use async_trait::async_trait;
use folio_storage::Aggregate;
use folio_types::op::{OpResult, Target};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::{self, Argument};
use crate::decide::{done, misplanned, recorded, write};
use crate::output;
use crate::subject::{Subject, existing};
use crate::tool::{CallContext, Plan, ReadTool, Tool, ToolError, ToolOutput, ToolResources, WriteTool};

/// A call that reads: its arguments, as the model gave them.
#[async_trait]
pub(crate) trait ReadCall: DeserializeOwned + Send + 'static {
    /// What the model reads.
    async fn answer(self, resources: &ToolResources, context: &CallContext) -> Result<Value, ToolError>;
}

/// A call that writes: its arguments, checked.
#[async_trait]
pub(crate) trait WriteCall: Sized + Send + Sync + 'static {
    /// What it changes.
    type Of: Aggregate;

    /// The arguments of a call that matched the tool's schema; what a schema cannot say is checked here.
    fn read(arguments: &Value) -> Result<Self, ToolError>;

    /// Resolves what will change: names to ids, the version that the write expects. Writes nothing.
    async fn plan(&self, resources: &ToolResources, context: &CallContext) -> Result<Plan, ToolError>;

    /// The change that the deciding write makes on what was planned. Not asked again for a call that is recorded.
    async fn change(
        self,
        resources: &ToolResources,
        context: &CallContext,
        plan: &Plan,
    ) -> Result<ChangeOf<Self>, ToolError>;

    /// What the call gave.
    fn output(target: &Target, result: OpResult) -> ToolOutput {
        output::of(target, result)
    }
}

/// What a write call does to what it changes.
pub(crate) type ChangeOf<C> = <<C as WriteCall>::Of as Aggregate>::Change;

/// A tool that reads.
pub(crate) fn reads<C: ReadCall>(name: &'static str, description: &'static str, arguments: Vec<Argument>) -> Tool {
    Tool::read(name, description, arguments, Reads::<C>(PhantomData))
}

/// A tool that writes.
pub(crate) fn writes<C: WriteCall>(name: &'static str, description: &'static str, arguments: Vec<Argument>) -> Tool {
    Tool::write(name, description, arguments, Writes::<C>(PhantomData))
}

/// A tool that deletes.
pub(crate) fn deletes<S: Subject>(name: &'static str, description: &'static str, which: Argument) -> Tool {
    writes::<Delete<S>>(name, description, vec![which])
}

struct Reads<C>(PhantomData<fn() -> C>);

#[async_trait]
impl<C: ReadCall> ReadTool for Reads<C> {
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let call: C = arguments::read(&arguments)?;
        call.answer(resources, context).await.map(ToolOutput::new)
    }
}

struct Writes<C>(PhantomData<fn() -> C>);

#[async_trait]
impl<C: WriteCall> WriteTool for Writes<C> {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        C::read(arguments)?.plan(resources, context).await
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        let id = C::Of::id_in(&plan.target).ok_or_else(misplanned)?;
        if let Some(result) = recorded(resources, context, arguments, &plan.target).await? {
            return Ok(C::output(&plan.target, result));
        }
        let change = C::read(arguments)?.change(resources, context, plan).await?;
        let write = write(resources, context, arguments, plan, change);
        let result = done(C::Of::decide(&resources.stores, id, write).await?)?;
        Ok(C::output(&plan.target, result))
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        C::output(target, result)
    }
}

/// The call that deletes, the same for every subject.
struct Delete<S> {
    named: Option<String>,
    subject: PhantomData<fn() -> S>,
}

#[async_trait]
impl<S: Subject> WriteCall for Delete<S> {
    type Of = S;

    fn read(arguments: &Value) -> Result<Self, ToolError> {
        let named = arguments.get(S::ARGUMENT).and_then(Value::as_str).map(str::to_owned);
        Ok(Self { named, subject: PhantomData })
    }

    async fn plan(&self, resources: &ToolResources, context: &CallContext) -> Result<Plan, ToolError> {
        existing::<S>(resources, context, self.named.as_deref()).await
    }

    async fn change(self, _: &ToolResources, _: &CallContext, _: &Plan) -> Result<S::Change, ToolError> {
        Ok(S::DELETE)
    }
}
