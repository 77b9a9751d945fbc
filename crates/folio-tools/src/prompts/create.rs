//! `create_prompt`.

use async_trait::async_trait;
use folio_storage::PromptChange;
use folio_types::TagId;
use folio_types::op::Expected;
use folio_types::prompt::Prompt;
use serde::Deserialize;
use serde_json::Value;

use super::{CONTENT, Linked, check_model, tag_ids};
use crate::arguments::{self, number, optional, required, text};
use crate::call::{WriteCall, writes};
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolResources};
use crate::{rules, subject, tags};

const MODEL: &str = "The model that runs it; list_llm_models shows them. Left out: the model of the conversation.";

pub(super) fn tool() -> Tool {
    writes::<CreatePrompt>(
        "create_prompt",
        "Creates a prompt for extractions, linked to a schema where schema_id is given. Where one of that name is \
         there already (without regard to case), this makes its next version, which is what this call says and \
         nothing more; none where nothing changes. Gives the prompt_revid.",
        vec![
            required("name", text("The prompt's name, for people: at most 200 characters.")),
            required("content", text(CONTENT)),
            optional("schema_id", text("The schema that answers must match, such as sch_….")).or_empty(),
            optional("schema_version", number("The version of that schema. Left out: the newest.", 1, 1_000_000)),
            optional("model", text(MODEL)).or_empty(),
            tag_ids().or_empty(),
        ],
    )
}

#[derive(Deserialize)]
struct Given {
    name: String,
    content: String,
    schema_id: Option<String>,
    #[serde(default, deserialize_with = "arguments::whole")]
    schema_version: Option<u32>,
    model: Option<String>,
    tag_ids: Option<Vec<String>>,
}

struct CreatePrompt {
    given: Given,
    tags: Vec<TagId>,
}

#[async_trait]
impl WriteCall for CreatePrompt {
    type Of = Prompt;

    fn read(arguments: &Value) -> Result<Self, ToolError> {
        let mut given: Given = arguments::read(arguments)?;
        rules::check_name("name", &given.name)?;
        rules::check_content("content", &given.content)?;
        // An empty text is a model's way to leave an argument out.
        given.schema_id.take_if(|id| id.is_empty());
        given.model.take_if(|model| model.is_empty());
        if given.schema_version.is_some() && given.schema_id.is_none() {
            return Err(ToolError::Told("schema_version needs schema_id beside it.".to_owned()));
        }
        let tags = arguments::tag_ids(&given.tag_ids.take().unwrap_or_default())?;
        Ok(Self { given, tags })
    }

    async fn plan(&self, resources: &ToolResources, context: &CallContext) -> Result<Plan, ToolError> {
        let Given { name, schema_id, schema_version, model, .. } = &self.given;
        check_model(resources, context, model.as_deref()).await?;
        tags::check_there(resources, context, &self.tags).await?;
        let linked = Linked::resolve(resources, context, schema_id.as_deref(), *schema_version).await?;
        Ok(linked.beside(subject::named::<Prompt>(resources, context, name).await?))
    }

    async fn change(self, _: &ToolResources, _: &CallContext, plan: &Plan) -> Result<PromptChange, ToolError> {
        let Given { name, content, model, .. } = self.given;
        let (schema, tags) = (Linked::in_plan(plan).schema, self.tags);
        Ok(match plan.expected {
            Expected::Absent => PromptChange::Create { name, content, schema, model, tags },
            // The next version is what this call says, as if it were the first.
            Expected::Version(_) => PromptChange::Update {
                name: None,
                content: Some(content),
                schema: Some(schema),
                model: Some(model),
                tags: Some(tags),
            },
        })
    }
}
