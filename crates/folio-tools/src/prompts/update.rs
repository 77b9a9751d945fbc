//! The tool `update_prompt`.

use async_trait::async_trait;

use folio_resources::{Prompt, PromptChange, PromptUpdate, check_prompt_content};
use folio_types::TagId;
use serde::Deserialize;
use serde_json::Value;

use super::{CONTENT, LinkedSchema, check_model, prompt_id, tag_ids};
use crate::arguments::{self, optional, text};
use crate::call::{WriteCall, write_tool};
use crate::tool::{CallContext, Plan, Tool, ToolError};
use crate::{subject, tags};

pub(super) fn tool() -> Tool {
    write_tool::<UpdatePrompt>(
        "update_prompt",
        "Creates the next version of a prompt. Omitted arguments stay unchanged; at least one is required. Result: \
         the fields of create_prompt.",
        vec![
            prompt_id(),
            optional("content", text(CONTENT)),
            optional("schema_id", text("Schema whose newest version is linked; \"\" removes the link.")),
            tag_ids("All tags that the prompt then has."),
            optional("model", text("Model from list_llm_models; \"\" selects that of the conversation.")),
        ],
    )
}

#[derive(Deserialize)]
struct Arguments {
    prompt_id: String,
    content: Option<String>,
    schema_id: Option<String>,
    tag_ids: Option<Vec<String>>,
    model: Option<String>,
}

struct UpdatePrompt {
    arguments: Arguments,
    tags: Option<Vec<TagId>>,
}

#[async_trait]
impl WriteCall for UpdatePrompt {
    type Target = Prompt;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        let input: Arguments = arguments::parse(arguments)?;
        if input.content.is_none() && input.schema_id.is_none() && input.tag_ids.is_none() && input.model.is_none() {
            return Err(ToolError::ForModel(
                "Nothing to change: pass content, schema_id, tag_ids or model.".to_owned(),
            ));
        }
        if let Some(content) = &input.content {
            check_prompt_content("content", content)?;
        }
        let tags = input.tag_ids.as_deref().map(arguments::tag_ids).transpose()?;
        Ok(Self { arguments: input, tags })
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        let Arguments { prompt_id, schema_id, model, .. } = &self.arguments;
        check_model(context, model.as_deref()).await?;
        tags::check_exist(context, self.tags.as_deref().unwrap_or_default()).await?;
        let linked = LinkedSchema::resolve(context, schema_id.as_deref(), None).await?;
        Ok(linked.add_to(subject::plan_existing::<Prompt>(context, Some(prompt_id)).await?))
    }

    async fn change(self, _: &CallContext, plan: &Plan) -> Result<PromptChange, ToolError> {
        Ok(PromptChange::Update(PromptUpdate {
            content: self.arguments.content,
            schema: self.arguments.schema_id.map(|_| LinkedSchema::of_plan(plan).schema),
            model: self.arguments.model.map(|model| Some(model).filter(|model| !model.is_empty())),
            tags: self.tags,
            ..PromptUpdate::default()
        }))
    }
}
