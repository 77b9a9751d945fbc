//! Conversions of the tasks of `run_tasks`.

use folio_history::task::{ChildStatus, GroupView, TaskOrigin, TaskView};
use folio_types::{Error, Result};

use crate::{fields, v1};

same_variants!(ChildStatus = v1::TaskStatus of "status": Completed, Failed, Cancelled, Expired, Superseded, NotStarted);

impl From<&TaskOrigin> for v1::TaskOrigin {
    fn from(task: &TaskOrigin) -> Self {
        let TaskOrigin { call, group, number, agent, depth } = task;
        Self {
            agent: agent.clone(),
            parent_call_id: call.to_string(),
            group_id: group.to_string(),
            number: *number,
            depth: *depth,
        }
    }
}

impl TryFrom<v1::TaskOrigin> for TaskOrigin {
    type Error = Error;
    fn try_from(task: v1::TaskOrigin) -> Result<Self> {
        Ok(Self {
            call: fields::id("parent_call_id", &task.parent_call_id)?,
            group: fields::id("group_id", &task.group_id)?,
            number: task.number,
            agent: task.agent,
            depth: task.depth,
        })
    }
}

impl From<&GroupView> for v1::TaskGroup {
    fn from(group: &GroupView) -> Self {
        Self {
            call_id: group.call.to_string(),
            group_id: group.id.to_string(),
            tasks: group.tasks.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<v1::TaskGroup> for GroupView {
    type Error = Error;
    fn try_from(group: v1::TaskGroup) -> Result<Self> {
        Ok(Self {
            call: fields::id("call_id", &group.call_id)?,
            id: fields::id("group_id", &group.group_id)?,
            tasks: group.tasks.into_iter().map(TryInto::try_into).collect::<Result<_>>()?,
        })
    }
}

impl From<&TaskView> for v1::Task {
    fn from(task: &TaskView) -> Self {
        let TaskView { number, agent, tool, thread } = task;
        Self {
            number: *number,
            agent: agent.clone(),
            tool: tool.clone().unwrap_or_default(),
            thread_id: thread.to_string(),
        }
    }
}

impl TryFrom<v1::Task> for TaskView {
    type Error = Error;
    fn try_from(task: v1::Task) -> Result<Self> {
        Ok(Self {
            number: task.number,
            agent: task.agent,
            tool: Some(task.tool).filter(|tool| !tool.is_empty()),
            thread: fields::id("thread_id", &task.thread_id)?,
        })
    }
}
