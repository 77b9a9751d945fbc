//! Checks the tasks of a call of `run_tasks`, before the machine appends their group.

use std::sync::Arc;

use folio_history::thread::NewThread;
use folio_tools::tasks::{self, Delegator, Task};
use folio_tools::{CallContext, ProfileTools, ToolError};
use folio_types::ThreadId;
use serde_json::Value;

use crate::prepare;
use crate::shared::Shared;
use crate::turn::PlannedTask;

/// Returns the checked tasks of a call. `profile`: that of the parent, with the tools of its turn.
pub(crate) async fn planned_tasks(
    shared: &Shared,
    context: &CallContext,
    profile: &Arc<ProfileTools>,
    arguments: &Value,
) -> Result<Vec<PlannedTask>, ToolError> {
    let requested = tasks::parse(arguments).map_err(ToolError::ForModel)?;
    let (documents, subject) = (context.documents.len(), context.subject.as_ref());
    let delegator = Delegator { profile, documents, subject };
    let registry = &shared.dependencies.tools;
    let mut planned = Vec::new();
    for (number, task) in (1..).zip(&requested) {
        delegator.check(registry, number, task).map_err(ToolError::ForModel)?;
        let (name, tool) = match task {
            Task::UseTool(task) => (profile.profile.name, Some(task.tool.clone())),
            Task::DelegateAgent(task) => (task.profile.as_str(), None),
        };
        let agent = registry.profile(name)?;
        let may_delegate = tool.is_none() && !agent.profile.delegates.is_empty();
        planned.push(PlannedTask { profile: name.to_owned(), tool, may_delegate });
        if name != profile.profile.name {
            check_media_types(shared, context, name).await?;
        }
    }
    Ok(planned)
}

/// Fails unless the documents of the turn have media types that another profile permits.
async fn check_media_types(shared: &Shared, context: &CallContext, profile: &str) -> Result<(), ToolError> {
    let at = shared.dependencies.environment.now();
    let id = ThreadId::derive(&["of a check"]);
    let thread = NewThread::new(id, &context.principal, profile, context.documents.clone(), at);
    Ok(prepare::check_media_types(shared, &thread).await?)
}
