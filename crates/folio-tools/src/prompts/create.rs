//! The tool `create_prompt`.

use async_trait::async_trait;

use folio_resources::{Prompt, PromptChange, check_prompt_content};
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

const MODEL: &str = "Model that runs the prompt, from list_llm_models. Default: the model of the conversation.";

pub(super) fn tool() -> Tool {
    let name = format!("Display name, 1 to {NAME_CHARS} characters, such as \"Invoice extraction\".");
    write_tool::<CreatePrompt>(
        "create_prompt",
        "Creates a prompt for extractions and makes it the working prompt of the conversation. Create its schema first \
         and pass schema_id. If a prompt with this name exists (ignoring case), the call creates its next version from \
         these arguments only (omitted ones are cleared), or none if nothing changes. Result: prompt_revid, prompt_id, \
         version, name, schema_revid, new_version (false if nothing changed).",
        vec![
            required("name", text(&name)),
            required("content", text(CONTENT)),
            optional("schema_id", text("Id of the schema that answers must match, such as sch_…. Default: no schema."))
                .or_empty(),
            optional(
                "schema_version",
                number("Version of that schema; requires schema_id. Default: the newest.", 1, 1_000_000),
            ),
            optional("model", text(MODEL)).or_empty(),
            tag_ids().or_empty(),
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
            Expected::Absent => PromptChange::Create { name, content, schema, model, temperature: None, tags },
            // The next version has exactly these arguments, like a first version.
            Expected::Version(_) => PromptChange::Update {
                name: None,
                content: Some(content),
                schema: Some(schema),
                model: Some(model),
                temperature: Some(None),
                tags: Some(tags),
            },
        })
    }
}
