//! The tool `create_prompt`.

use async_trait::async_trait;

use folio_resources::{NewPrompt, Prompt, PromptChange, PromptUpdate, check_prompt_content};
use folio_types::TagId;
use folio_types::limits::NAME_CHARS;
use folio_types::op::Expected;
use serde::Deserialize;
use serde_json::Value;

use super::{CONTENT, LinkedSchema, check_model, tag_ids};
use crate::arguments::{self, number, optional, required, text};
use crate::call::{WriteCall, write_tool};
use crate::tool::{CallContext, Plan, Tool, ToolError};
use crate::{subject, tags};

const MODEL: &str = "Model from list_llm_models. Default: that of the conversation.";

pub(super) fn tool() -> Tool {
    let name = format!("Name, 1 to {NAME_CHARS} characters.");
    write_tool::<CreatePrompt>(
        "create_prompt",
        "Creates a prompt for run_extraction, which becomes the working prompt. Create its schema first. If the \
         name exists, creates its next version from these arguments alone. Complete example: \
         {\"name\":\"Receipt\",\"content\":\"Extract the fields of the receipt. A missing value is \
         null.\",\"schema_id\":\"sch_…\"}. Result: prompt_revid, prompt_id, version, name, schema_revid, new_version \
         (false if nothing changed).",
        vec![
            required("name", text(&name)),
            required("content", text(CONTENT)),
            optional(
                "schema_id",
                text("Schema of the answers, such as sch_… or $create_schema.schema_id. Default: none."),
            )
            .or_empty(),
            optional("schema_version", number("Version of the schema. Default: the newest.", 1, 1_000_000)),
            optional("model", text(MODEL)).or_empty(),
            tag_ids("Tags of the prompt. Default: none.").or_empty(),
        ],
    )
}

#[derive(Deserialize)]
struct Arguments {
    name: String,
    content: String,
    schema_id: Option<String>,
    #[serde(default, deserialize_with = "arguments::whole")]
    schema_version: Option<u32>,
    model: Option<String>,
    tag_ids: Option<Vec<String>>,
}

struct CreatePrompt {
    arguments: Arguments,
    tags: Vec<TagId>,
}

#[async_trait]
impl WriteCall for CreatePrompt {
    type Target = Prompt;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        let mut input: Arguments = arguments::parse(arguments)?;
        folio_resources::fields::check_name("name", &input.name)?;
        check_prompt_content("content", &input.content)?;
        if input.schema_version.is_some() && input.schema_id.is_none() {
            return Err(ToolError::ForModel("schema_version requires schema_id. Pass both or neither.".to_owned()));
        }
        let tags = arguments::tag_ids(&input.tag_ids.take().unwrap_or_default())?;
        Ok(Self { arguments: input, tags })
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        let Arguments { name, schema_id, schema_version, model, .. } = &self.arguments;
        check_model(context, model.as_deref()).await?;
        tags::check_exist(context, &self.tags).await?;
        let linked = LinkedSchema::resolve(context, schema_id.as_deref(), *schema_version).await?;
        Ok(linked.add_to(subject::plan_create::<Prompt>(context, name).await?))
    }

    async fn change(self, _: &CallContext, plan: &Plan) -> Result<PromptChange, ToolError> {
        let Arguments { name, content, model, .. } = self.arguments;
        let (schema, tags) = (LinkedSchema::of_plan(plan).schema, self.tags);
        Ok(match plan.expected {
            Expected::Absent => {
                PromptChange::Create(NewPrompt { name, content, schema, model, tags, ..NewPrompt::default() })
            }
            // The next revision has exactly the arguments of the call, like a first revision. It keeps the temperature, because
            // the tool has no such argument.
            Expected::Version(_) => PromptChange::Update(PromptUpdate {
                content: Some(content),
                schema: Some(schema),
                model: Some(model),
                tags: Some(tags),
                ..PromptUpdate::default()
            }),
        })
    }
}
