//! The tools that explain how to write schemas and prompts.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::tool::{CallContext, ReadTool, Tool, ToolError, ToolOutput, ToolResources};

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::read(
            "help_schemas",
            "Explains how to write a schema: its format, its rules, and an example. Call it before creating or \
             changing a schema.",
            Vec::new(),
            Help(include_str!("help/schemas.md")),
        ),
        Tool::read(
            "help_prompts",
            "Explains how to write a prompt: what makes a good one, linking a schema, choosing a model. Call it \
             before creating or changing a prompt.",
            Vec::new(),
            Help(include_str!("help/prompts.md")),
        ),
    ]
}

struct Help(&'static str);

#[async_trait]
impl ReadTool for Help {
    async fn run(&self, _: &ToolResources, _: &CallContext, _: Value) -> Result<ToolOutput, ToolError> {
        Ok(ToolOutput::new(json!({ "help": self.0 })))
    }
}
