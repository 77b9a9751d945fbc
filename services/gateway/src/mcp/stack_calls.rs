//! The tools that change the table of a stack: those of its agent (profile `stack`), which run as direct calls in a thread of the
//! caller and the stack, and the job that fills the rows.

use folio_history::command::ChatCommand;
use folio_operations::conversations::registry;
use folio_operations::stacks::{CreateStackThread, FillStack};
use folio_operations::{Call, Operation as _};
use folio_types::profile::{DOCUMENT_PROFILE, STACK_PROFILE};
use folio_types::{RequestId, Result, StackId, ThreadId};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Client;
use super::call;
use super::message::Failure;
use super::tools::{conversation_tool, parse, tool};

pub(super) const FILL_STACK: &str = "fill_stack";

/// The argument that each tool of the agent has in addition to its own ones.
pub(super) const STACK: &str = "stack";
const STACK_TEXT: &str = "Id of the stack that the call is about, from search_stacks.";

/// Returns the tools that the caller may call.
pub(super) fn list(client: &Client) -> Result<Vec<Value>> {
    let caller = &client.caller;
    let mut tools = Vec::new();
    if caller.authorize(&ChatCommand::DECLARATION).is_ok() && caller.authorize(&CreateStackThread::DECLARATION).is_ok()
    {
        let (of_documents, of_stacks) = (registry()?.profile(DOCUMENT_PROFILE)?, registry()?.profile(STACK_PROFILE)?);
        // A client finds documents with the tools about documents.
        let specs = of_stacks.specs().filter(|spec| of_documents.get(spec.name).is_none());
        tools.extend(specs.map(|spec| conversation_tool(spec, (STACK, STACK_TEXT))));
    }
    if caller.authorize(&FillStack::DECLARATION).is_ok() {
        let text = "Starts a job in which an agent fills the missing cells of a stack, row by row. It costs credit. Returns job_id and \
            documents, the number of rows to fill; list_stack_rows then shows the filled cells. Fails with JOB_OPEN if a job fills \
            the stack already.";
        let properties = json!({
            "stack": { "type": "string", "description": STACK_TEXT },
            "credit_budget": { "type": "integer", "minimum": 1, "description": "Maximum credits that the job may cost. Default: \
                no maximum." },
        });
        tools.push(tool(FILL_STACK, text, (properties, &["stack"]), false));
    }
    Ok(tools)
}

/// Returns true if a call is about a stack: a tool of its agent that no document has, or that the arguments direct to a stack.
pub(super) fn is_call(name: &str, arguments: &Map<String, Value>) -> Result<bool> {
    let (of_documents, of_stacks) = (registry()?.profile(DOCUMENT_PROFILE)?, registry()?.profile(STACK_PROFILE)?);
    let is_directed = arguments.contains_key(STACK) || of_documents.get(name).is_none();
    Ok(is_directed && of_stacks.get(name).is_some())
}

/// Returns the thread with a number among those in which direct calls of the caller about a stack run. Creates it on first use.
///
/// # Errors
/// `NOT_FOUND` of the stack, or of a thread that was deleted.
pub(super) async fn thread(client: &Client, stack: &StackId, number: u32) -> Result<ThreadId> {
    let request: RequestId = format!("mcp-calls.{stack}.{number}").parse()?;
    let operation = CreateStackThread { stack_id: stack.clone(), model: None };
    client.api.operations().run(&client.caller, Call::with_request_id(Some(request), operation)).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filling {
    stack: StackId,
    credit_budget: Option<u64>,
}

/// Starts the job that fills the rows of a stack. A repeated request returns the same job.
pub(super) async fn fill(
    client: &Client,
    arguments: Map<String, Value>,
    params: &Map<String, Value>,
) -> Result<Result<Value>, Failure> {
    let request_id = call::request_id(params)?;
    let Filling { stack: stack_id, credit_budget } = match parse(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return Ok(Err(error)),
    };
    let operation = Call::with_request_id(request_id, FillStack { stack_id, model: None, credit_budget });
    let started = client.api.operations().run(&client.caller, operation).await;
    Ok(started.map(|job| {
        let documents = job.header.progress().items;
        call::content(&json!({ "job_id": job.header.id, "documents": documents }), false)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_both_agents_is_about_the_resource_that_the_arguments_name() {
        let of = |name: &str, arguments: Value| is_call(name, arguments.as_object().unwrap()).unwrap();
        assert!(of("extract_row", json!({})) && of("define_columns", json!({ "stack": "stk" })));
        assert!(of("list_documents", json!({ "stack": "stk" })));
        assert!(!of("list_documents", json!({ "document": "doc" })));
        assert!(!of("create_tag", json!({ "stack": "stk" })) && !of("no_tool", json!({ "stack": "stk" })));
    }

    #[test]
    fn a_budget_and_an_unknown_member_are_refused_by_their_names() {
        let read = |value: Value| parse::<Filling>(value.as_object().unwrap().clone());
        let stack = StackId::derive(&["s"]);
        assert_eq!(read(json!({ "stack": stack })).unwrap().credit_budget, None);
        assert_eq!(
            read(json!({ "stack": stack, "credit_budget": -1 })).unwrap_err().violations[0].field,
            "credit_budget"
        );
        assert!(read(json!({ "stack": stack, "model": "m" })).unwrap_err().message.contains("model"));
    }
}
