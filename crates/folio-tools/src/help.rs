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
            "Returns a guide for writing schemas: format, rules and a complete example. Call it before create_schema \
             or update_schema. Result: help (Markdown).",
            include_str!("help/schemas.md"),
        ),
        tool(
            "help_prompts",
            "Returns a guide for writing prompts: content, linked schema, model, tags. Call it before create_prompt \
             or update_prompt. Result: help (Markdown).",
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
