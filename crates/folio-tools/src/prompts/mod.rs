//! Tools for prompts.

mod create;
mod read;
mod update;

use folio_resources::{Prompt, Schema};
use folio_types::{PromptRevId, SchemaRevId, limits};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::arguments::{Argument, list_of_text, optional, required, text};
use crate::call::delete_tool;
use crate::subject::{ToolResource, find_by_argument, parse_revid};
use crate::tool::{CallContext, Plan, Tool, ToolError};
use crate::{rules, subject};

const CONTENT: &str = "What to extract and how. Folio adds the document and the schema.";

/// Maximum number of available models that an error lists.
const MODELS_LISTED_MAX: usize = 5;

pub(crate) fn tools() -> Vec<Tool> {
    let mut tools = read::tools();
    tools.push(create::tool());
    tools.push(update::tool());
    tools.push(delete_tool::<Prompt>(
        "delete_prompt",
        "Deletes a prompt with all its versions. This cannot be undone. Its extractions are kept. Result: deleted \
         (the prompt_id).",
        prompt_id(),
    ));
    tools
}

impl ToolResource for Prompt {
    const ARGUMENT: &'static str = "prompt_id";
    const HINT: &'static str =
        "expected a prompt_id such as prm_…, without the .version of a prompt_revid; call list_prompts to find it.";
    const LIST_TOOL: &'static str = "list_prompts";
}

fn prompt_id() -> Argument {
    required("prompt_id", text("Id without a version, such as prm_…."))
}

fn tag_ids(description: &str) -> Argument {
    optional("tag_ids", list_of_text(description, limits::TAGS_MAX))
}

pub(crate) async fn revid(context: &CallContext, text: &str) -> Result<PromptRevId, ToolError> {
    let hint = "expected a prompt_id, a dot and a version, such as prm_….1; call list_prompts to find it.";
    parse_revid::<Prompt>(context, text, hint).await
}

/// The resolved part of a plan: the schema revision that the prompt is linked to. None: no schema.
#[derive(Default, Serialize, Deserialize)]
struct LinkedSchema {
    schema: Option<SchemaRevId>,
}

impl LinkedSchema {
    /// Resolves `schema_id` and `version` (None: the newest) to a revision. Without `schema_id` there is no link.
    async fn resolve(context: &CallContext, schema_id: Option<&str>, version: Option<u32>) -> Result<Self, ToolError> {
        let schema_id = schema_id.filter(|id| !id.is_empty());
        if schema_id.is_none() {
            return Ok(Self::default());
        }
        let schema: Schema = find_by_argument(context, schema_id).await?;
        let newest = schema.latest.revid;
        let Some(version) = version else {
            subject::name_revision::<Schema>(context, &newest).await?;
            return Ok(Self { schema: Some(newest) });
        };
        let revid = SchemaRevId::new(schema.id.clone(), version);
        if context.store::<Schema>().revision(&context.principal.org, &revid).await?.is_none() {
            let text = format!(
                "schema_version {version} does not exist: the newest version of {} is {}.",
                schema.id, newest.version
            );
            return Err(ToolError::ForModel(text));
        }
        subject::name_revision::<Schema>(context, &revid).await?;
        Ok(Self { schema: Some(revid) })
    }

    fn of_plan(plan: &Plan) -> Self {
        Self::deserialize(&plan.resolved).unwrap_or_default()
    }

    fn add_to(self, plan: Plan) -> Plan {
        Plan { resolved: json!(self), ..plan }
    }
}

async fn check_model(context: &CallContext, model: Option<&str>) -> Result<(), ToolError> {
    let Some(name) = model.filter(|name| !name.is_empty()) else { return Ok(()) };
    let catalogue = context.resources.models.catalogue(&context.principal.org).await?;
    if catalogue.for_prompts(Some(name)).is_ok() {
        return Ok(());
    }
    let available = catalogue.list().iter().filter(|model| model.options.prompts).take(MODELS_LISTED_MAX);
    let names: Vec<&str> = available.map(|model| model.name.as_str()).collect();
    Err(ToolError::ForModel(format!(
        "model {:?} is not available to prompts. Available: {}. list_llm_models returns every model.",
        rules::excerpt(name),
        names.join(", ")
    )))
}
