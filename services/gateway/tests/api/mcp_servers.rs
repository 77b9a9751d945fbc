//! The double of MCP servers: every server offers the same tools, and a call returns its arguments.

use async_trait::async_trait;
use folio_resources::{McpServer, McpToolText};
use folio_tools::mcp::{McpFailure, McpReply, McpServers, OfferedTool};
use serde_json::{Value, json};

pub(crate) struct StaticMcpServers;

#[async_trait]
impl McpServers for StaticMcpServers {
    async fn tools(&self, server: &McpServer) -> Result<Vec<OfferedTool>, McpFailure> {
        if server.url.contains("down") {
            return Err(McpFailure::NotSent("the host is unreachable".to_owned()));
        }
        let tool = |name: &str, description: &str, is_read_only_hint| OfferedTool {
            name: name.to_owned(),
            text: McpToolText { description: description.to_owned(), input_schema: json!({ "type": "object" }) },
            is_read_only_hint,
        };
        Ok(vec![tool("find", "Finds tickets.", true), tool("create", "Creates a ticket.", false)])
    }

    async fn call(&self, _: &McpServer, _: &str, arguments: &Value) -> Result<McpReply, McpFailure> {
        Ok(McpReply { content: arguments.clone(), is_error: false })
    }
}
