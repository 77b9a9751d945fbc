//! Tools of prompts.

use async_trait::async_trait;
use folio_storage::{PromptChange, PromptFilter};
use folio_types::journal::WorkingChange;
use folio_types::op::{Expected, OpResult, Target};
use folio_types::prompt::{Prompt, PromptRevision};
use folio_types::{PromptId, PromptRevId, SchemaId, SchemaRevId, limits};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::arguments::{
    self, DOCUMENT_HINT, PROMPT_HINT, PROMPT_REVID_HINT, Paging, SCHEMA_HINT, SEARCH, list_of_text, number, object,
    optional, paging, required, text,
};
use crate::decide::{done, misplanned, seed, write};
use crate::tool::{CallContext, Plan, ReadTool, Tool, ToolError, ToolOutput, ToolResources, WriteTool};
use crate::{documents, rules, schemas};

const CONTENT: &str = "The instructions: what to extract and how. help_prompts says what makes good ones.";
const MODEL: &str = "The model that runs it; list_llm_models shows them. Left out: the model of the conversation.";
const TAGS: &str = "All its tags, by tag_id: documents that share one find the prompt.";

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    let filters = [
        optional("name_search", text(SEARCH)),
        optional("document_id", text("Only prompts that share a tag with this document.")),
        optional("tag_ids", list_of_text("Only those that have all of these tags.", limits::TAGS_MAX)),
    ];
    vec![
        Tool::read(
            "get_prompt",
            "Shows one revision of a prompt: its content, linked schema, model and tags.",
            object(vec![required("prompt_revid", text("The revision, such as prm_….1."))]),
            GetPrompt,
        ),
        Tool::read(
            "list_prompts",
            "Lists the organization's prompts, newest first, each with its newest revision.",
            object(paging().into_iter().chain(filters).collect()),
            ListPrompts,
        ),
        Tool::write(
            "create_prompt",
            "Creates a prompt for extractions, linked to a schema where schema_id is given. Where one of that name is \
             there already, this makes its next version. Gives the prompt_revid.",
            object(vec![
                required("name", text("The prompt's name, for people.")),
                required("content", text(CONTENT)),
                optional("schema_id", text("The schema that answers must match, such as sch_….")),
                optional("schema_version", number("The version of that schema. Left out: the newest.", 1, 1_000_000)),
                optional("model", text(MODEL)),
                optional("tag_ids", list_of_text(TAGS, limits::TAGS_MAX)),
            ]),
            CreatePrompt,
        ),
        Tool::write(
            "update_prompt",
            "Makes a new version of a prompt; what is left out stays. An update that changes nothing makes no \
             version. Gives the prompt_revid.",
            object(vec![
                required("prompt_id", text("The prompt, such as prm_….")),
                optional("content", text(CONTENT)),
                optional(
                    "schema_id",
                    text("Links the newest version of this schema; an empty text takes the link away."),
                ),
                optional("tag_ids", list_of_text(TAGS, limits::TAGS_MAX)),
                optional("model", text("The model that runs it; an empty text leaves it to the conversation.")),
            ]),
            UpdatePrompt,
        ),
        Tool::write(
            "delete_prompt",
            "Deletes a prompt with all its versions. Extractions that it made stay.",
            object(vec![required("prompt_id", text("The prompt, such as prm_…."))]),
            DeletePrompt,
        ),
    ]
}

/// The revision that the model named, of a live prompt of the organization.
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

async fn find(resources: &ToolResources, context: &CallContext, id: &PromptId) -> Result<Prompt, ToolError> {
    let found = resources.stores.prompts.get(&context.principal.org, id).await?;
    found.ok_or_else(|| ToolError::Told(format!("There is no prompt {id}; list_prompts shows what there is.")))
}

fn summary(revision: &PromptRevision) -> Value {
    json!({
        "prompt_revid": revision.revid,
        "prompt_id": revision.revid.of,
        "version": revision.revid.version,
        "name": revision.name,
        "schema_revid": revision.schema,
        "model": revision.model,
        "tag_ids": revision.tags,
    })
}

struct GetPrompt;

#[derive(Deserialize)]
struct Revid {
    prompt_revid: String,
}

#[async_trait]
impl ReadTool for GetPrompt {
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let Revid { prompt_revid } = arguments::read(&arguments)?;
        let revid = arguments::id("prompt_revid", &prompt_revid, PROMPT_REVID_HINT)?;
        let found = revision(resources, context, &revid).await?;
        let mut shown = summary(&found);
        if let Some(members) = shown.as_object_mut() {
            members.insert("content".to_owned(), found.content.into());
        }
        Ok(ToolOutput::new(shown))
    }
}

struct ListPrompts;

#[derive(Deserialize)]
struct List {
    #[serde(flatten)]
    paging: Paging,
    name_search: Option<String>,
    document_id: Option<String>,
    tag_ids: Option<Vec<String>>,
}

#[async_trait]
impl ReadTool for ListPrompts {
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let List { paging, name_search, document_id, tag_ids } = arguments::read(&arguments)?;
        let mut filter = PromptFilter { name_search: arguments::search(name_search)?, ..Default::default() };
        filter.all_tags = arguments::tag_ids(&tag_ids.unwrap_or_default())?;
        if let Some(document) = document_id {
            let id = arguments::id("document_id", &document, DOCUMENT_HINT)?;
            filter.document = Some(documents::find(resources, context, &id).await?.id);
        }
        let page = resources.stores.prompts.list(&context.principal.org, &filter, &paging.request()).await?;
        Ok(ToolOutput::new(paging.list("prompts", page, |prompt| summary(&prompt.latest))))
    }
}

/// What a plan resolved beside its target.
#[derive(Default, Serialize, Deserialize)]
struct Resolved {
    schema: Option<SchemaRevId>,
}

impl Resolved {
    fn of(plan: &Plan) -> Self {
        Self::deserialize(&plan.resolved).unwrap_or_default()
    }
}

/// The schema revision that a prompt is to be linked to: the named version, else the newest.
async fn link(
    resources: &ToolResources,
    context: &CallContext,
    schema_id: &str,
    version: Option<u32>,
) -> Result<SchemaRevId, ToolError> {
    let id: SchemaId = arguments::id("schema_id", schema_id, SCHEMA_HINT)?;
    let newest = schemas::find(resources, context, &id).await?.latest.revid;
    let Some(version) = version else { return Ok(newest) };
    let revid = SchemaRevId::new(id.clone(), version);
    if resources.stores.schemas.revision(&context.principal.org, &revid).await?.is_none() {
        return Err(ToolError::Told(format!(
            "Schema {id} has no version {version}; its newest is {}.",
            newest.version
        )));
    }
    Ok(revid)
}

struct CreatePrompt;

#[derive(Deserialize)]
struct Create {
    name: String,
    content: String,
    schema_id: Option<String>,
    #[serde(default, deserialize_with = "arguments::whole")]
    schema_version: Option<u32>,
    model: Option<String>,
    tag_ids: Option<Vec<String>>,
}

impl Create {
    /// The arguments, with empty texts read as left out.
    fn read(arguments: &Value) -> Result<Self, ToolError> {
        let mut read: Self = arguments::read(arguments)?;
        read.schema_id.take_if(|id| id.is_empty());
        read.model.take_if(|model| model.is_empty());
        Ok(read)
    }
}

#[async_trait]
impl WriteTool for CreatePrompt {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let create = Create::read(arguments)?;
        rules::check_name("name", &create.name)?;
        rules::check_content("content", &create.content)?;
        arguments::tag_ids(&create.tag_ids.unwrap_or_default())?;
        check_model(resources, create.model.as_deref())?;
        let schema = match &create.schema_id {
            Some(id) => Some(link(resources, context, id, create.schema_version).await?),
            None if create.schema_version.is_some() => {
                return Err(ToolError::Told("schema_version needs schema_id beside it.".to_owned()));
            }
            None => None,
        };
        let resolved = json!(Resolved { schema });
        Ok(match resources.stores.prompts.by_name(&context.principal.org, &create.name).await? {
            Some(there) => {
                Plan { target: Target::Prompt(there.id), expected: Expected::Version(there.version), resolved }
            }
            None => {
                let [org, call] = seed(context);
                let target = Target::Prompt(PromptId::derive(&[&org, &call]));
                Plan { target, expected: Expected::Absent, resolved }
            }
        })
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        let create = Create::read(arguments)?;
        let tags = arguments::tag_ids(&create.tag_ids.unwrap_or_default())?;
        let schema = Resolved::of(plan).schema;
        let change = match plan.expected {
            Expected::Absent => {
                PromptChange::Create { name: create.name, content: create.content, schema, model: create.model, tags }
            }
            // The next version is what this call says, as if it were the first.
            Expected::Version(_) => PromptChange::Update {
                name: None,
                content: Some(create.content),
                schema: Some(schema),
                model: Some(create.model),
                tags: Some(tags),
            },
        };
        decide(resources, context, arguments, plan, change).await
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

fn check_model(resources: &ToolResources, model: Option<&str>) -> Result<(), ToolError> {
    if let Some(name) = model
        && rules::check_prompt_model(resources.models.as_ref(), name).is_err()
    {
        let shown: String = name.chars().take(80).collect();
        let text = format!("The model {shown:?} is not available to prompts; list_llm_models shows those that are.");
        return Err(ToolError::Told(text));
    }
    Ok(())
}

struct UpdatePrompt;

#[derive(Deserialize)]
struct Update {
    prompt_id: String,
    content: Option<String>,
    schema_id: Option<String>,
    tag_ids: Option<Vec<String>>,
    model: Option<String>,
}

#[async_trait]
impl WriteTool for UpdatePrompt {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let update: Update = arguments::read(arguments)?;
        if update.content.is_none() && update.schema_id.is_none() && update.tag_ids.is_none() && update.model.is_none()
        {
            return Err(ToolError::Told("Nothing to change: give content, schema_id, tag_ids or model.".to_owned()));
        }
        if let Some(content) = &update.content {
            rules::check_content("content", content)?;
        }
        arguments::tag_ids(&update.tag_ids.unwrap_or_default())?;
        check_model(resources, update.model.as_deref().filter(|model| !model.is_empty()))?;
        let schema = match update.schema_id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => Some(link(resources, context, id, None).await?),
            None => None,
        };
        let plan = plan_existing(resources, context, &update.prompt_id).await?;
        Ok(Plan { resolved: json!(Resolved { schema }), ..plan })
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        let update: Update = arguments::read(arguments)?;
        let tags = update.tag_ids.map(|ids| arguments::tag_ids(&ids)).transpose()?;
        let change = PromptChange::Update {
            name: None,
            content: update.content,
            schema: update.schema_id.map(|_| Resolved::of(plan).schema),
            model: update.model.map(|model| Some(model).filter(|model| !model.is_empty())),
            tags,
        };
        decide(resources, context, arguments, plan, change).await
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

struct DeletePrompt;

#[derive(Deserialize)]
struct Id {
    prompt_id: String,
}

#[async_trait]
impl WriteTool for DeletePrompt {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let Id { prompt_id } = arguments::read(arguments)?;
        plan_existing(resources, context, &prompt_id).await
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        decide(resources, context, arguments, plan, PromptChange::Delete).await
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

async fn plan_existing(resources: &ToolResources, context: &CallContext, id: &str) -> Result<Plan, ToolError> {
    let id = arguments::id("prompt_id", id, PROMPT_HINT)?;
    let there = find(resources, context, &id).await?;
    Ok(Plan { target: Target::Prompt(id), expected: Expected::Version(there.version), resolved: Value::Null })
}

async fn decide(
    resources: &ToolResources,
    context: &CallContext,
    arguments: &Value,
    plan: &Plan,
    change: PromptChange,
) -> Result<ToolOutput, ToolError> {
    let Target::Prompt(id) = &plan.target else { return Err(misplanned()) };
    let write = write(resources, context, arguments, plan, change);
    let result = done(resources.stores.prompts.decide(id, write).await?)?;
    Ok(output(&plan.target, result))
}

fn output(target: &Target, result: OpResult) -> ToolOutput {
    let mut change = WorkingChange::default();
    let content = match (result, target) {
        (OpResult::Prompt { revid, name, schema, revised }, _) => {
            change.prompt_revid = Some(revid.clone());
            json!({
                "prompt_revid": revid,
                "prompt_id": revid.of,
                "version": revid.version,
                "name": name,
                "schema_revid": schema,
                "new_version": revised,
            })
        }
        (OpResult::Deleted, Target::Prompt(id)) => {
            change.deleted_prompt = Some(id.clone());
            json!({ "deleted": id })
        }
        (other, _) => json!(other),
    };
    ToolOutput { content, change }
}
