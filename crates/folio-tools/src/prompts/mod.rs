//! Tools of prompts.

mod create;
mod show;
mod update;

use folio_types::prompt::{Prompt, PromptRevision};
use folio_types::schema::Schema;
use folio_types::{PromptRevId, SchemaRevId, limits};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::arguments::{self, Argument, list_of_text, optional, required, text};
use crate::call::deletes;
use crate::subject::{Subject, find_named};
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolResources};

const CONTENT: &str = "The instructions: what to extract and how. help_prompts says what makes good ones.";

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    let mut tools = show::tools();
    tools.push(create::tool());
    tools.push(update::tool());
    tools.push(deletes::<Prompt>(
        "delete_prompt",
        "Deletes a prompt with all its versions; it cannot be undone. Extractions that it made stay.",
        which(),
    ));
    tools
}

impl Subject for Prompt {
    const ARGUMENT: &'static str = "prompt_id";
    const HINT: &'static str =
        "a prompt_id looks like prm_…, without the .version that a prompt_revid has; list_prompts shows them.";
    const LIST: &'static str = "list_prompts";
}

fn which() -> Argument {
    required("prompt_id", text("The prompt, such as prm_… (without a version)."))
}

fn tag_ids() -> Argument {
    let description = "All its tags, by tag_id: documents that share one find the prompt.";
    optional("tag_ids", list_of_text(description, limits::TAGS_MAX))
}

/// The prompt revision that the model named.
pub(crate) fn revid(text: &str) -> Result<PromptRevId, ToolError> {
    let hint = "a prompt_revid is a prompt_id, a dot and a version, such as prm_….1; list_prompts shows them.";
    arguments::id("prompt_revid", text, hint)
}

/// A revision of a live prompt of the organization.
pub(crate) async fn revision(
    resources: &ToolResources,
    context: &CallContext,
    revid: &PromptRevId,
) -> Result<PromptRevision, ToolError> {
    let found = resources.stores.prompts.revision(&context.principal.org, revid).await?;
    found.ok_or_else(|| {
        ToolError::Told(format!("There is no prompt revision {revid}; list_prompts shows what there is."))
    })
}

/// What a plan resolved beside its target: the revision that a prompt is to be linked to.
#[derive(Default, Serialize, Deserialize)]
struct Linked {
    schema: Option<SchemaRevId>,
}

impl Linked {
    /// The newest version of the schema that the model named, or the version that it named; none where it named none.
    async fn resolve(
        resources: &ToolResources,
        context: &CallContext,
        schema_id: Option<&str>,
        version: Option<u32>,
    ) -> Result<Self, ToolError> {
        let Some(named) = schema_id.filter(|id| !id.is_empty()) else { return Ok(Self::default()) };
        let schema: Schema = find_named(resources, context, Some(named)).await?;
        let newest = schema.latest.revid;
        let Some(version) = version else { return Ok(Self { schema: Some(newest) }) };
        let revid = SchemaRevId::new(schema.id.clone(), version);
        if resources.stores.schemas.revision(&context.principal.org, &revid).await?.is_none() {
            let text = format!("Schema {} has no version {version}; its newest is {}.", schema.id, newest.version);
            return Err(ToolError::Told(text));
        }
        Ok(Self { schema: Some(revid) })
    }

    fn in_plan(plan: &Plan) -> Self {
        Self::deserialize(&plan.resolved).unwrap_or_default()
    }

    fn beside(self, plan: Plan) -> Plan {
        Plan { resolved: json!(self), ..plan }
    }
}

async fn check_model(resources: &ToolResources, context: &CallContext, model: Option<&str>) -> Result<(), ToolError> {
    let Some(name) = model.filter(|name| !name.is_empty()) else { return Ok(()) };
    let catalogue = resources.models.catalogue(&context.principal.org).await?;
    if catalogue.for_prompts(Some(name)).is_err() {
        let shown: String = name.chars().take(80).collect();
        let text = format!("The model {shown:?} is not available to prompts; list_llm_models shows those that are.");
        return Err(ToolError::Told(text));
    }
    Ok(())
}
