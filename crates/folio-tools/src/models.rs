//! The tool that lists models.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::arguments::object;
use crate::tool::{CallContext, ReadTool, Tool, ToolError, ToolOutput, ToolResources};

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    vec![Tool::read(
        "list_llm_models",
        "Lists the models that prompts may name, and which one is used where none is named.",
        object(Vec::new()),
        ListModels,
    )]
}

struct ListModels;

#[async_trait]
impl ReadTool for ListModels {
    async fn run(&self, resources: &ToolResources, context: &CallContext, _: Value) -> Result<ToolOutput, ToolError> {
        let models: Vec<Value> = resources
            .models
            .list()
            .into_iter()
            .filter(|model| model.prompts)
            .map(|model| {
                json!({
                    "model": model.name,
                    "provider": model.provider,
                    "context_tokens": model.context_tokens,
                    "max_output_tokens": model.max_output_tokens,
                })
            })
            .collect();
        Ok(ToolOutput::new(json!({
            "models": models,
            "default": resources.models.default_model(),
            "conversation": context.model,
        })))
    }
}
