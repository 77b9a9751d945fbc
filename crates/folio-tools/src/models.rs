//! The tool `list_llm_models`.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::{ReadCall, read_tool};
use crate::tool::{CallContext, Tool, ToolError};

pub(crate) fn tools() -> Vec<Tool> {
    vec![read_tool::<ListModels>(
        "list_llm_models",
        "Returns the models that a prompt may use. Call it before you set model in a prompt. Result: models (model, \
         provider, context_tokens, max_output_tokens), default (of the organization), conversation (the model of \
         this conversation).",
        Vec::new(),
    )]
}

#[derive(Deserialize)]
struct ListModels {}

#[async_trait]
impl ReadCall for ListModels {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let catalogue = context.resources.models.catalogue(&context.principal.org).await?;
        let models: Vec<Value> = catalogue
            .list()
            .iter()
            .filter(|model| model.options.prompts)
            .map(|model| {
                json!({
                    "model": model.name,
                    "provider": model.provider,
                    "context_tokens": model.options.context_tokens,
                    "max_output_tokens": model.options.max_output_tokens,
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
