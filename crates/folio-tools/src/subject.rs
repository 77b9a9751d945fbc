//! What calls are about: how a model names one, how it is found, and the plan of a write to it.

use folio_storage::{Aggregate, Named};
use folio_types::op::Expected;
use serde_json::Value;

use crate::arguments;
use crate::tool::{CallContext, Plan, ToolError, ToolResources};

/// An aggregate that models name by its id.
pub(crate) trait Subject: Aggregate {
    /// The argument that names one.
    const ARGUMENT: &'static str;
    /// How its ids look, and which tool shows them.
    const HINT: &'static str;
    /// The tool that shows what there is.
    const LIST: &'static str;

    /// The one that a call is about which names none.
    fn unnamed(_: &CallContext) -> Result<Self::Id, ToolError> {
        Err(ToolError::Told(format!("{} is missing: {}", Self::ARGUMENT, Self::HINT)))
    }

    /// What the model is told where there is none of this id.
    fn missing(_: &CallContext, id: &Self::Id) -> ToolError {
        ToolError::Told(format!("There is no {} {id}; {} shows what there is.", Self::target(id).kind(), Self::LIST))
    }
}

/// The live one that the model named.
pub(crate) async fn find<S: Subject>(
    resources: &ToolResources,
    context: &CallContext,
    id: &S::Id,
) -> Result<S, ToolError> {
    let found = S::find(&resources.stores, &context.principal.org, id).await?;
    found.ok_or_else(|| S::missing(context, id))
}

/// The live one that the model named by this text.
pub(crate) async fn find_named<S: Subject>(
    resources: &ToolResources,
    context: &CallContext,
    named: Option<&str>,
) -> Result<S, ToolError> {
    let id = match named.filter(|text| !text.is_empty()) {
        Some(text) => arguments::id(S::ARGUMENT, text, S::HINT)?,
        None => S::unnamed(context)?,
    };
    find(resources, context, &id).await
}

/// The plan of a write to the one that the model named.
pub(crate) async fn existing<S: Subject>(
    resources: &ToolResources,
    context: &CallContext,
    named: Option<&str>,
) -> Result<Plan, ToolError> {
    find_named::<S>(resources, context, named).await.map(|there| on(&there))
}

/// The plan of a create: to the one that has the name already, else to a new one.
pub(crate) async fn named<A: Named>(
    resources: &ToolResources,
    context: &CallContext,
    name: &str,
) -> Result<Plan, ToolError> {
    let there = A::by_name(&resources.stores, &context.principal.org, name).await?;
    Ok(there.map_or_else(|| new::<A>(context), |there| on(&there)))
}

/// The plan of a write to something new: its id follows from the call.
pub(crate) fn new<A: Aggregate>(context: &CallContext) -> Plan {
    let id = A::derive(&[context.principal.org.as_str(), &context.call.to_string()]);
    Plan { target: A::target(&id), expected: Expected::Absent, resolved: Value::Null }
}

/// The plan of a write to what is there.
pub(crate) fn on<A: Aggregate>(there: &A) -> Plan {
    Plan { target: A::target(there.id()), expected: Expected::Version(there.version()), resolved: Value::Null }
}
