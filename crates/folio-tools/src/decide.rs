//! The deciding write of a call and its result.

use folio_types::op::{OpKey, OpResult, OpState, Target, Write, WriteOutcome};
use folio_types::{Code, Digest, Error, Reason};
use serde_json::Value;

use crate::tool::{CallContext, Plan, ToolError};

/// Returns the deciding write of a call. The op key is the call id.
pub(crate) fn write<C>(context: &CallContext, arguments: &Value, plan: &Plan, change: C) -> Write<C> {
    Write {
        org: context.principal.org.clone(),
        op: OpKey::Call(context.call.clone()),
        digest: Digest::of_json(arguments),
        by: context.principal.user.clone(),
        at: context.resources.environment.now(),
        expected: plan.expected,
        change,
    }
}

/// Returns the recorded result of a deciding write. Fails with `Conflict` if the target changed or the op row is
/// closed; the caller reads the op row and reports the conflict.
pub(crate) fn into_result(decided: WriteOutcome) -> Result<OpResult, ToolError> {
    match decided {
        WriteOutcome::Row(row) => match row.state {
            OpState::Done(result) => Ok(result),
            OpState::Conflict | OpState::Aborted => Err(ToolError::Conflict),
        },
        WriteOutcome::VersionMismatch => Err(ToolError::Conflict),
    }
}

/// Returns the recorded result of a call, None if there is none. Called before work that costs credit. Fails with
/// `REQUEST_ID_CONFLICT`, as the deciding write does, if the op row was recorded with different arguments.
pub(crate) async fn recorded_result(
    context: &CallContext,
    arguments: &Value,
    target: &Target,
) -> Result<Option<OpResult>, ToolError> {
    let op = OpKey::Call(context.call.clone());
    match context.resources.stores.ops.row(&context.principal.org, target, &op).await? {
        Some(row) if row.digest != Digest::of_json(arguments) => Err(ToolError::Failed(Error::new(
            Code::AlreadyExists,
            Reason::RequestIdConflict,
            format!("{op} is recorded with different arguments"),
        ))),
        Some(row) => into_result(WriteOutcome::Row(row)).map(Some),
        None => Ok(None),
    }
}

/// Returns the error of a plan whose target has the wrong kind: the journal entry is corrupt.
pub(crate) fn invalid_plan() -> ToolError {
    ToolError::Failed(Error::internal("the plan of a tool call has a target of the wrong kind"))
}
