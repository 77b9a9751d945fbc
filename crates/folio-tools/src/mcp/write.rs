//! The tool `write_to_server`: an effect outside of the stores, which no store can make idempotent.
//!
//! | step | stored | after a crash right after it |
//! |---|---|---|
//! | intent | the call in the journal | nothing was sent: recovery runs the call |
//! | deciding write | the op row of the call, with the attempt that may send it | the outcome is `unknown`; nothing is sent |
//! | the call is sent | – | as above |
//! | outcome | the reply in the journal | the turn continues |
//!
//! The op row is inserted once. Only the attempt that the row names sends the call, so that a repetition, a second owner and a
//! recovery send nothing. An op that was closed sends nothing either.

use std::sync::Arc;

use async_trait::async_trait;
use folio_history::journal::CallStatus;
use folio_resources::{McpServer, McpServerChange, Resource as _};
use folio_types::op::{Expected, OpResult, Target};
use serde_json::{Value, json};

use super::{McpFailure, McpReply, ServerCall, WRITE_TOOL, call_arguments, shown};
use crate::arguments;
use crate::decide::{into_result, invalid_plan, recorded_result, write};
use crate::subject::plan_update;
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolKind, ToolOutput, WriteTool};

pub(super) fn tool() -> Tool {
    Tool::new(
        WRITE_TOOL,
        "Calls a tool of an external server that changes something. Call list_server_tools first. The call waits for approval \
         and is sent at most once. Result: server, tool, result, or error if the tool failed; if outcome is \"unknown\", the \
         change may have happened: do not repeat the call.",
        call_arguments(),
        ToolKind::Write(Arc::new(WriteToServer)),
    )
}

struct WriteToServer;

#[async_trait]
impl WriteTool for WriteToServer {
    async fn plan(&self, context: &CallContext, arguments: &Value) -> Result<Plan, ToolError> {
        let call: ServerCall = arguments::parse(arguments)?;
        let server = call.server(context).await?;
        call.check(&server, true)?;
        call.check_text(context, &server).await?;
        Ok(plan_update(&server))
    }

    async fn run(&self, context: &CallContext, arguments: &Value, plan: &Plan) -> Result<ToolOutput, ToolError> {
        let id = McpServer::id_in(&plan.target).ok_or_else(invalid_plan)?;
        if recorded_result(context, arguments, &plan.target).await?.is_some() {
            return Ok(unknown(arguments));
        }
        let call: ServerCall = arguments::parse(arguments)?;
        let servers = context.store::<McpServer>();
        let server = servers.get(&context.principal.org, &id).await?;
        // The URL and the token are those of the version that the deciding write expects.
        let is_planned = |server: &McpServer| plan.expected == Expected::Version(server.version);
        let server = server.filter(is_planned).ok_or(ToolError::Conflict)?;
        let attempt = format!("{:032x}", context.resources.environment.random());
        let change = McpServerChange::Call { tool: call.tool.clone(), attempt: attempt.clone() };
        let recorded = into_result(servers.decide(&id, write(context, arguments, plan, change)).await?)?;
        if !may_send(&recorded, &attempt) {
            return Ok(unknown(arguments));
        }
        let ServerCall { tool, arguments: sent, .. } = call;
        let answer = context.resources.mcp.call(&server, &tool, &Value::Object(sent)).await;
        Ok(output(&server.name, &tool, answer))
    }

    fn output(&self, _: &Target, _: OpResult, arguments: &Value) -> ToolOutput {
        unknown(arguments)
    }
}

/// Returns true if an attempt inserted the op row, so that it may send the call.
fn may_send(recorded: &OpResult, attempt: &str) -> bool {
    matches!(recorded, OpResult::Resource { name, .. } if name == attempt)
}

/// Returns the output of a call that may have been sent by another attempt, whose reply is lost.
fn unknown(arguments: &Value) -> ToolOutput {
    let part = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    without_outcome(part("server"), part("tool"), "the process that sent the call ended before the reply")
}

fn without_outcome(server: &str, tool: &str, problem: &str) -> ToolOutput {
    let error = format!("The outcome is unknown: {problem}. The change may have happened. Do not repeat the call.");
    let content = json!({ "server": server, "tool": tool, "outcome": "unknown", "error": error });
    ToolOutput { status: CallStatus::Unknown, ..ToolOutput::new(content) }
}

fn output(server: &str, tool: &str, answer: Result<McpReply, McpFailure>) -> ToolOutput {
    let problem = match answer {
        Ok(reply) => {
            let status = if reply.is_error { CallStatus::Failed } else { CallStatus::Ok };
            return ToolOutput { status, ..ToolOutput::new(shown(server, tool, reply)) };
        }
        Err(McpFailure::Unknown(problem)) => return without_outcome(server, tool, &problem),
        Err(McpFailure::NotSent(problem)) => format!("The call was not sent: {problem}."),
        Err(McpFailure::Refused(problem)) => format!("The server refused the call: {problem}."),
    };
    let content = json!({ "server": server, "tool": tool, "error": problem });
    ToolOutput { status: CallStatus::Failed, ..ToolOutput::new(content) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_call_states_whether_it_may_have_had_an_effect() {
        let reply = |is_error| Ok(McpReply { content: json!(["done"]), is_error });
        let problem = "it returned 502".to_owned();
        for (answer, status, member) in [
            (reply(false), CallStatus::Ok, "result"),
            (reply(true), CallStatus::Failed, "error"),
            (Err(McpFailure::NotSent(problem.clone())), CallStatus::Failed, "error"),
            (Err(McpFailure::Refused(problem.clone())), CallStatus::Failed, "error"),
            (Err(McpFailure::Unknown(problem)), CallStatus::Unknown, "outcome"),
        ] {
            let output = output("tickets", "create", answer.clone());
            assert!(output.status == status && output.content.get(member).is_some(), "{answer:?}: {output:?}");
        }
    }

    #[test]
    fn only_the_attempt_in_the_op_row_sends_the_call() {
        let row = |name: &str| OpResult::Resource { id: "mcs_1".to_owned(), name: name.to_owned() };
        assert!(may_send(&row("a"), "a"));
        assert!(!may_send(&row("b"), "a") && !may_send(&row(""), "a") && !may_send(&OpResult::Deleted, "a"));
    }
}
