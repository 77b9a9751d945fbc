//! The tool that lists models.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::{ReadCall, reads};
use crate::tool::{CallContext, Tool, ToolError, ToolResources};

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    vec![reads::<ListModels>(
        "list_llm_models",
        "Lists the models that prompts may name, the default, and the model of this conversation, which runs prompts \
         that name none.",
        Vec::new(),
    )]
}

#[derive(Deserialize)]
struct ListModels {}

#[async_trait]
impl ReadCall for ListModels {
    async fn answer(self, resources: &ToolResources, context: &CallContext) -> Result<Value, ToolError> {
        let catalogue = resources.models.catalogue(&context.principal.org).await?;
        let models: Vec<Value> = catalogue
            .list()
            .iter()
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
        Ok(json!({
            "models": models,
            "default": catalogue.default_model(),
            "conversation": context.model,
        }))
    }
}
