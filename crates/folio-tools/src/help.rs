//! Tools that return guides for writing schemas and prompts.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::tool::{CallContext, ReadTool, Tool, ToolError, ToolKind, ToolOutput};

pub(crate) fn tools() -> Vec<Tool> {
    let tool = |name, description, text| Tool::new(name, description, Vec::new(), ToolKind::Read(Arc::new(Help(text))));
    vec![
        tool(
            "help_schemas",
            "Returns rules and advice for schemas. Call it if create_schema fails or the schema is complex. Result: \
             help (Markdown).",
            include_str!("help/schemas.md"),
        ),
        tool(
            "help_prompts",
            "Returns advice for prompts. Call it if extracted data are wrong. Result: help (Markdown).",
            include_str!("help/prompts.md"),
        ),
    ]
}

struct Help(&'static str);

#[async_trait]
impl ReadTool for Help {
    async fn run(&self, _: &CallContext, _: Value) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::new(json!({ "help": self.0 })))
    }
}
