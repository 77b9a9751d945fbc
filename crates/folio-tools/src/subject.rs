//! Resources that tool calls concern: parses their ids from arguments, loads them and plans writes to them.

use folio_resources::{Resource, Revisioned};
use folio_types::op::Expected;
use serde_json::Value;

use crate::arguments;
use crate::tool::{CallContext, Plan, ToolError};

/// A resource that tool arguments identify by its id.
pub(crate) trait ToolResource: Resource {
    const ARGUMENT: &'static str;
    /// Format of the id and the tool that finds ids, for error messages.
    const HINT: &'static str;
    /// Tool that lists the resources.
    const LIST_TOOL: &'static str;

    /// Returns the id that is used if the argument is omitted. Fails with `ForModel` if there is no default.
    fn default_id(_: &CallContext) -> Result<Self::Id, ToolError> {
        Err(ToolError::ForModel(format!("{} is missing: {}", Self::ARGUMENT, Self::HINT)))
    }

    /// Returns the error for an id that does not exist.
    fn not_found_error(_: &CallContext, id: &Self::Id) -> ToolError {
        ToolError::ForModel(format!(
            "{} {id} does not exist. Call {} to find every existing {}.",
            Self::ARGUMENT,
            Self::LIST_TOOL,
            Self::target(id).kind()
        ))
    }
}

pub(crate) async fn find<S: ToolResource>(context: &CallContext, id: &S::Id) -> Result<S, ToolError> {
    let found = context.store::<S>().get(&context.principal.org, id).await?;
    found.ok_or_else(|| S::not_found_error(context, id))
}

/// Returns the resource whose id is `argument`, or the default if the argument is omitted.
pub(crate) async fn find_by_argument<S: ToolResource>(
    context: &CallContext,
    argument: Option<&str>,
) -> Result<S, ToolError> {
    let id = match argument {
        Some(text) => arguments::id(S::ARGUMENT, text, S::HINT)?,
        None => S::default_id(context)?,
    };
    find(context, &id).await
}

/// Returns a revision. Fails with `ForModel` if the resource is deleted or does not have this version.
pub(crate) async fn find_revision<S: ToolResource + Revisioned>(
    context: &CallContext,
    revid: &S::RevId,
) -> Result<S::Revision, ToolError> {
    let found = context.store::<S>().revision(&context.principal.org, revid).await?;
    found.ok_or_else(|| {
        let argument = S::ARGUMENT.replace("_id", "_revid");
        let list = S::LIST_TOOL;
        ToolError::ForModel(format!("{argument} {revid} does not exist. Call {list} to find existing versions."))
    })
}

/// Enters the call's thread as a name of a revision, so that the revision is kept while the call waits.
pub(crate) async fn name_revision<S: Revisioned>(context: &CallContext, revid: &S::RevId) -> Result<(), ToolError> {
    let named = context.store::<S>().name_revision(&context.principal.org, revid, &context.call.turn).await;
    named.map_err(ToolError::from)
}

/// Plans a write to the resource whose id is `argument`, or to the default if the argument is omitted.
pub(crate) async fn plan_existing<S: ToolResource>(
    context: &CallContext,
    argument: Option<&str>,
) -> Result<Plan, ToolError> {
    find_by_argument::<S>(context, argument).await.map(|existing| plan_update(&existing))
}

/// Plans a create: a write to the resource that already has the name, else to a new one.
pub(crate) async fn plan_create<A: Resource>(context: &CallContext, name: &str) -> Result<Plan, ToolError> {
    let existing = context.store::<A>().by_name(&context.principal.org, name).await?;
    Ok(existing.map_or_else(|| plan_new::<A>(context), |existing| plan_update(&existing)))
}

/// Plans the creation of a resource. Its id is derived from the call, so a repeated call creates it once.
pub(crate) fn plan_new<A: Resource>(context: &CallContext) -> Plan {
    let id = A::derive_id(&[context.principal.org.as_str(), &context.call.to_string()]);
    Plan { target: A::target(&id), expected: Expected::Absent, resolved: Value::Null }
}

/// Plans a write to the current version of a resource.
pub(crate) fn plan_update<A: Resource>(current: &A) -> Plan {
    Plan { target: A::target(current.id()), expected: Expected::Version(current.version()), resolved: Value::Null }
}
