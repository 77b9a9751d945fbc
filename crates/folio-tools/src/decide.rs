//! The deciding write of a call, and what the store answers to it.

use folio_types::op::{Decided, OpKey, OpResult, OpState, Target, Write};
use folio_types::{Code, Digest, Error, Reason};
use serde_json::Value;

use crate::tool::{CallContext, Plan, ToolError, ToolResources};

/// The deciding write of a call, keyed by it.
pub(crate) fn write<C>(
    resources: &ToolResources,
    context: &CallContext,
    arguments: &Value,
    plan: &Plan,
    change: C,
) -> Write<C> {
    Write {
        org: context.principal.org.clone(),
        op: OpKey::Call(context.call.clone()),
        digest: Digest::of_json(arguments),
        by: context.principal.user.clone(),
        at: resources.environment.now(),
        expected: plan.expected,
        change,
    }
}

/// The recorded result of a deciding write. An op row that is closed is the shell's to report: it reads the row.
pub(crate) fn done(decided: Decided) -> Result<OpResult, ToolError> {
    match decided {
        Decided::Row(row) => match row.state {
            OpState::Done(result) => Ok(result),
            OpState::Conflict | OpState::Aborted => Err(ToolError::Moved),
        },
        Decided::Moved => Err(ToolError::Moved),
    }
}

/// The result that is recorded for a call already, if any: asked before work that costs. A row of other arguments is
/// refused as the deciding write would refuse it: it is not this call's.
pub(crate) async fn recorded(
    resources: &ToolResources,
    context: &CallContext,
    arguments: &Value,
    target: &Target,
) -> Result<Option<OpResult>, ToolError> {
    let op = OpKey::Call(context.call.clone());
    match resources.stores.ops.row(&context.principal.org, target, &op).await? {
        Some(row) if row.digest != Digest::of_json(arguments) => Err(ToolError::Failed(Error::new(
            Code::AlreadyExists,
            Reason::RequestIdConflict,
            format!("{op} is recorded with other arguments"),
        ))),
        Some(row) => done(Decided::Row(row)).map(Some),
        None => Ok(None),
    }
}

/// A plan that does not fit its tool: the journal holds another tool's, or one that was tampered with.
pub(crate) fn misplanned() -> ToolError {
    ToolError::Failed(Error::internal("the plan of a call names the wrong kind of target"))
}
