//! `update_prompt`.

use async_trait::async_trait;
use folio_storage::PromptChange;
use folio_types::TagId;
use folio_types::prompt::Prompt;
use serde::Deserialize;
use serde_json::Value;

use super::{CONTENT, Linked, check_model, tag_ids, which};
use crate::arguments::{self, optional, text};
use crate::call::{WriteCall, writes};
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolResources};
use crate::{rules, subject, tags};

pub(super) fn tool() -> Tool {
    writes::<UpdatePrompt>(
        "update_prompt",
        "Makes a new version of a prompt; what is left out stays. An update that changes nothing makes no version. \
         Gives the prompt_revid.",
        vec![
            which(),
            optional("content", text(CONTENT)),
            optional(
                "schema_id",
                text("Links the newest version of this schema, such as sch_…; an empty text takes the link away."),
            ),
            tag_ids(),
            optional("model", text("The model that runs it; an empty text leaves it to the conversation.")),
        ],
    )
}

#[derive(Deserialize)]
struct Given {
    prompt_id: String,
    content: Option<String>,
    schema_id: Option<String>,
    tag_ids: Option<Vec<String>>,
    model: Option<String>,
}

struct UpdatePrompt {
    given: Given,
    tags: Option<Vec<TagId>>,
}

#[async_trait]
impl WriteCall for UpdatePrompt {
    type Of = Prompt;

    fn read(arguments: &Value) -> Result<Self, ToolError> {
        let given: Given = arguments::read(arguments)?;
        if given.content.is_none() && given.schema_id.is_none() && given.tag_ids.is_none() && given.model.is_none() {
            return Err(ToolError::Told("Nothing to change: give content, schema_id, tag_ids or model.".to_owned()));
        }
        if let Some(content) = &given.content {
            rules::check_content("content", content)?;
        }
        let tags = given.tag_ids.as_deref().map(arguments::tag_ids).transpose()?;
        Ok(Self { given, tags })
    }

    async fn plan(&self, resources: &ToolResources, context: &CallContext) -> Result<Plan, ToolError> {
        let Given { prompt_id, schema_id, model, .. } = &self.given;
        check_model(resources, context, model.as_deref()).await?;
        tags::check_there(resources, context, self.tags.as_deref().unwrap_or_default()).await?;
        let linked = Linked::resolve(resources, context, schema_id.as_deref(), None).await?;
        Ok(linked.beside(subject::existing::<Prompt>(resources, context, Some(prompt_id)).await?))
    }

    async fn change(self, _: &ToolResources, _: &CallContext, plan: &Plan) -> Result<PromptChange, ToolError> {
        Ok(PromptChange::Update {
            name: None,
            content: self.given.content,
            schema: self.given.schema_id.map(|_| Linked::in_plan(plan).schema),
            model: self.given.model.map(|model| Some(model).filter(|model| !model.is_empty())),
            tags: self.tags,
        })
    }
}
