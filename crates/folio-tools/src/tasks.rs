//! The tool `run_tasks`, with which an agent starts child turns. A conversation runs its calls: they have no deciding write, and
//! the turn waits until the child turns have ended.

use std::sync::Arc;

use folio_types::limits::{ROUNDS_MAX, TASK_CONTEXT_BYTES, TASK_TEXT_BYTES, TASKS_PER_GROUP_MAX, USER_TEXT_BYTES};
use folio_types::profile::{Profile, Subject, SubjectKind};
use folio_types::truncate_bytes;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::arguments::{object_or_text, required, text, whole};
use crate::registry::{ProfileTools, Registry};
use crate::rules::excerpt;
use crate::spelling::parse_string;
use crate::tool::{Tool, ToolKind};

/// Name of the tool.
pub const RUN_TASKS: &str = "run_tasks";

const DESCRIPTION: &str = "Runs tasks at the same time and returns their results in order. Call it to delegate independent parts \
    of a request to other agents, or to run several calls of tools at once. A task is either delegate_agent or use_tool. An \
    agent works in a conversation of its own about the same document: it receives the message of the user, task and context, \
    and nothing else. Its calls need the same approvals as yours. A failed task does not stop the others. Result: group_id, \
    tasks (task: the number; status: completed, failed, cancelled, expired, superseded or not_started; summary: the answer or \
    the reason; thread_id: the log).";

/// Frame of the message of a delegated agent, and the reserve for the note of a truncation, in bytes.
const MESSAGE_FRAME: usize = 1024;
const TRUNCATION_NOTE: &str = "\n[… truncated: the message is too long]";

/// A task as the arguments of a call state it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    UseTool(UseTool),
    DelegateAgent(DelegateAgent),
}

/// A call of a tool of the same profile.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct UseTool {
    pub tool: String,
    #[serde(default = "no_arguments")]
    pub arguments: Value,
}

/// Work of another agent.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DelegateAgent {
    /// Name of its profile.
    pub profile: String,
    pub task: String,
    #[serde(default)]
    pub context: String,
    /// Maximum number of model calls. None: that of the profile.
    #[serde(default, deserialize_with = "whole")]
    pub max_rounds: Option<u32>,
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

#[derive(Deserialize)]
struct Arguments {
    tasks: Vec<Task>,
}

/// Creates the tool of a profile. `delegates`: the profiles to which it may delegate.
pub(crate) fn tool(delegates: &[&str]) -> Tool {
    let use_tool = json!({
        "type": "object",
        "description": "Runs one of your tools.",
        "properties": {
            "tool": text("Name of the tool. Not run_tasks."),
            "arguments": object_or_text("Arguments of the tool. Default: none."),
        },
        "required": ["tool"],
        "additionalProperties": false,
    });
    let delegate_agent = json!({
        "type": "object",
        "description": "Lets another agent work.",
        "properties": {
            "profile": { "type": "string", "enum": delegates, "description": "The agent." },
            "task": text("What the agent must do and answer."),
            "context": text("What the agent must know. Default: nothing."),
            "max_rounds": {
                "type": "integer",
                "minimum": 1,
                "maximum": ROUNDS_MAX,
                "description": "Maximum number of model calls. Default: that of the agent.",
            },
        },
        "required": ["profile", "task"],
        "additionalProperties": false,
    });
    let tasks = json!({
        "type": "array",
        "minItems": 1,
        "maxItems": TASKS_PER_GROUP_MAX,
        "items": {
            "type": "object",
            "properties": { "use_tool": use_tool, "delegate_agent": delegate_agent },
            "additionalProperties": false,
        },
        "description": "The tasks. Each has exactly one of use_tool and delegate_agent.",
    });
    Tool::new(RUN_TASKS, DESCRIPTION, vec![required("tasks", tasks).or_json_string()], ToolKind::Tasks)
}

/// Returns the tasks of a call. The error is a message for the model.
pub fn parse(arguments: &Value) -> Result<Vec<Task>, String> {
    let Arguments { tasks } = Arguments::deserialize(arguments).map_err(|error| {
        format!(
            "tasks are invalid: {error}. Each task must be an object with exactly one of use_tool and delegate_agent."
        )
    })?;
    if tasks.is_empty() || tasks.len() > TASKS_PER_GROUP_MAX {
        return Err(format!("tasks has {} tasks; pass 1 to {TASKS_PER_GROUP_MAX}.", tasks.len()));
    }
    Ok(tasks)
}

/// The turn that calls `run_tasks`.
#[derive(Debug, Clone, Copy)]
pub struct Delegator<'a> {
    /// Its profile, with the tools of the turn.
    pub profile: &'a Arc<ProfileTools>,
    /// Number of documents of its thread.
    pub documents: usize,
    pub subject: Option<&'a Subject>,
}

impl Delegator<'_> {
    /// Checks a task against the tools and the agents that the turn may use. The error is a message for the model.
    pub fn check(&self, registry: &Registry, number: usize, task: &Task) -> Result<(), String> {
        let problem = match task {
            Task::UseTool(task) => self.tool_problem(task),
            Task::DelegateAgent(task) => self.agent_problem(registry, task),
        };
        problem.map_or(Ok(()), |problem| Err(format!("task {number}: {problem}")))
    }

    fn tool_problem(&self, task: &UseTool) -> Option<String> {
        if task.tool == RUN_TASKS {
            return Some("a task cannot be a call of run_tasks: delegate to an agent that may delegate.".to_owned());
        }
        if self.profile.answer().schema().is_some() {
            return Some("an agent that answers with JSON cannot use use_tool: call the tool directly.".to_owned());
        }
        let known = || self.profile.specs().map(|spec| spec.name).collect::<Vec<_>>().join(", ");
        self.profile
            .get(&task.tool)
            .is_none()
            .then(|| format!("unknown tool {:?}. Available tools: {}.", excerpt(&task.tool), known()))
    }

    fn agent_problem(&self, registry: &Registry, task: &DelegateAgent) -> Option<String> {
        let name = excerpt(&task.profile);
        let delegates = self.profile.profile.delegates;
        let found = registry.profile(&task.profile).ok();
        let Some(found) = found.filter(|found| delegates.contains(&found.profile.name)) else {
            return Some(format!("profile {name:?} is not available. Available profiles: {}.", delegates.join(", ")));
        };
        for (argument, value, max) in
            [("task", &task.task, TASK_TEXT_BYTES), ("context", &task.context, TASK_CONTEXT_BYTES)]
        {
            if value.len() > max {
                return Some(format!("{argument} has {} bytes; the maximum is {max}. Shorten it.", value.len()));
            }
        }
        if task.task.trim().is_empty() {
            return Some("task is blank. State what the agent must do.".to_owned());
        }
        let Profile { documents, subject, .. } = &found.profile;
        if self.documents < documents.min || self.documents > documents.max {
            let (min, max, own) = (documents.min, documents.max, self.documents);
            return Some(format!("profile {name} requires {min} to {max} documents, and this conversation has {own}."));
        }
        let has_subject = match subject {
            SubjectKind::Document => true,
            kind => self.subject.is_some_and(|subject| subject.kind() == *kind),
        };
        let kind = subject.as_str();
        (!has_subject)
            .then(|| format!("profile {name} works on a resource of the kind {kind}; this conversation has none."))
    }
}

impl Task {
    /// Returns the message of the child turn. `user_text`: the message of the user in the parent turn, which is truncated if the
    /// message would be too long.
    pub fn message(&self, user_text: &str) -> String {
        match self {
            Self::UseTool(task) => format!("Run the tool {}.", excerpt(&task.tool)),
            Self::DelegateAgent(DelegateAgent { task, context, .. }) => {
                let free = USER_TEXT_BYTES.saturating_sub(task.len()).saturating_sub(context.len());
                let mut original = user_text.to_owned();
                truncate_bytes(&mut original, free.saturating_sub(MESSAGE_FRAME), TRUNCATION_NOTE);
                let context =
                    if context.trim().is_empty() { String::new() } else { format!("\n\nContext:\n{context}") };
                format!("{task}{context}\n\nThis task is a part of the following request of the user:\n{original}")
            }
        }
    }
}

impl UseTool {
    /// Returns the arguments as an object. Another value stays, so that the call fails with the violation.
    pub fn call_arguments(&self) -> Value {
        let mut arguments = self.arguments.clone();
        parse_string(&mut arguments);
        arguments
    }
}

#[cfg(test)]
mod tests {
    use folio_types::DocumentId;
    use folio_types::profile::{COORDINATOR_PROFILE, DOCUMENT_PROFILE};

    use super::*;

    fn delegate(profile: &str, task: &str) -> Value {
        json!({ "delegate_agent": { "profile": profile, "task": task } })
    }

    fn problem(task: Value) -> Option<String> {
        let registry = Registry::standard().unwrap();
        let profile = registry.profile(COORDINATOR_PROFILE).unwrap();
        let subject = Subject::Document(DocumentId::derive(&["d"]));
        let delegator = Delegator { profile: &profile, documents: 1, subject: Some(&subject) };
        let tasks = parse(&json!({ "tasks": [task] })).unwrap();
        delegator.check(&registry, 1, &tasks[0]).err()
    }

    #[test]
    fn a_task_is_a_tool_or_an_agent() {
        let arguments = json!({ "tasks": [
            { "use_tool": { "tool": "list_tags" } },
            { "delegate_agent": { "profile": "document", "task": "Sum up.", "context": "Page 1", "max_rounds": 2.0 } },
        ] });
        let delegated = DelegateAgent {
            profile: "document".into(),
            task: "Sum up.".into(),
            context: "Page 1".into(),
            max_rounds: Some(2),
        };
        let used = UseTool { tool: "list_tags".into(), arguments: json!({}) };
        assert_eq!(parse(&arguments).unwrap(), [Task::UseTool(used), Task::DelegateAgent(delegated)]);
        for invalid in [json!({}), json!({ "tasks": [] }), json!({ "tasks": [{}] }), json!({ "tasks": [{ "x": {} }] })]
        {
            assert!(parse(&invalid).unwrap_err().starts_with("tasks"), "{invalid}");
        }
        let both = json!({ "use_tool": { "tool": "a" }, "delegate_agent": { "profile": "document", "task": "b" } });
        assert!(parse(&json!({ "tasks": [both] })).is_err());
        let many = vec![delegate("document", "x"); TASKS_PER_GROUP_MAX + 1];
        assert!(parse(&json!({ "tasks": many })).is_err());
    }

    #[test]
    fn the_schema_of_the_tool_permits_exactly_its_bounds() {
        let profile = Registry::standard().unwrap().profile(COORDINATOR_PROFILE).unwrap();
        let valid = |tasks: Value| profile.check(RUN_TASKS, &json!({ "tasks": tasks }).to_string()).problem;
        assert_eq!(valid(json!([delegate(DOCUMENT_PROFILE, "x")])), None);
        assert_eq!(valid(json!(vec![delegate(DOCUMENT_PROFILE, "x"); TASKS_PER_GROUP_MAX])), None);
        assert_eq!(valid(json!(json!([delegate(DOCUMENT_PROFILE, "x")]).to_string())), None, "JSON in a string");
        for invalid in [
            json!([]),
            json!(vec![delegate(DOCUMENT_PROFILE, "x"); TASKS_PER_GROUP_MAX + 1]),
            json!([delegate("extraction", "x")]),
            json!([{ "delegate_agent": { "profile": DOCUMENT_PROFILE, "task": "x", "max_rounds": 0 } }]),
            json!([{ "unknown": {} }]),
        ] {
            assert!(valid(invalid.clone()).is_some(), "{invalid}");
        }
    }

    #[test]
    fn a_task_names_a_tool_of_the_profile_or_a_profile_to_which_it_may_delegate() {
        assert_eq!(problem(delegate(DOCUMENT_PROFILE, "x")), None);
        assert_eq!(problem(json!({ "use_tool": { "tool": "list_tags" } })), None);
        for (task, expected) in [
            (delegate("extraction", "x"), "Available profiles: document."),
            (delegate("no_profile", "x"), "is not available"),
            (delegate(DOCUMENT_PROFILE, " "), "task is blank"),
            (delegate(DOCUMENT_PROFILE, &"x".repeat(TASK_TEXT_BYTES + 1)), "the maximum is 16384"),
            (json!({ "use_tool": { "tool": "run_tasks" } }), "cannot be a call of run_tasks"),
            (json!({ "use_tool": { "tool": "write_to_server" } }), "unknown tool"),
        ] {
            let found = problem(task.clone()).unwrap_or_default();
            assert!(found.starts_with("task 1: ") && found.contains(expected), "{task}: {found}");
        }
    }

    #[test]
    fn an_agent_receives_the_task_the_context_and_the_message_of_the_user() {
        let task = |context: &str| {
            Task::DelegateAgent(DelegateAgent {
                profile: "document".into(),
                task: "Find the total.".into(),
                context: context.into(),
                max_rounds: None,
            })
        };
        let message = task("It is on page 2.").message("Check the invoice.");
        assert!(message.starts_with("Find the total.\n\nContext:\nIt is on page 2.\n\n"), "{message}");
        assert!(message.ends_with("\nCheck the invoice."), "{message}");
        assert!(!task(" ").message("x").contains("Context"));
        let longest = task(&"c".repeat(TASK_CONTEXT_BYTES)).message(&"é".repeat(USER_TEXT_BYTES));
        assert!(longest.len() <= USER_TEXT_BYTES && longest.ends_with(TRUNCATION_NOTE), "{}", longest.len());
        let tool = UseTool { tool: "list_tags".into(), arguments: json!("{\"limit\": 2}") };
        assert_eq!(tool.call_arguments(), json!({ "limit": 2 }));
        assert_eq!(Task::UseTool(tool).message("secret"), "Run the tool list_tags.");
    }
}
