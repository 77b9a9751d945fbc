//! The tool `read_from_server`.

use async_trait::async_trait;
use serde_json::Value;

use super::{READ_TOOL, ServerCall, call_arguments, shown, unreachable};
use crate::call::{ReadCall, read_tool};
use crate::tool::{CallContext, Tool, ToolError};

pub(super) fn tool() -> Tool {
    read_tool::<ServerCall>(
        READ_TOOL,
        "Calls a tool of an external server that only reads. Call list_server_tools first. Result: server, tool, result, or \
         error if the tool failed.",
        call_arguments(),
    )
}

#[async_trait]
impl ReadCall for ServerCall {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let server = self.server(context).await?;
        self.check(&server, false)?;
        self.check_text(context, &server).await?;
        let arguments = Value::Object(self.arguments);
        let reply = context.resources.mcp.call(&server, &self.tool, &arguments).await;
        let reply = reply.map_err(|failure| unreachable(&server.name, &failure))?;
        Ok(shown(&server.name, &self.tool, reply))
    }
}
