//! Tools of tags.

use async_trait::async_trait;
use folio_storage::{TagChange, TagFilter};
use folio_types::TagId;
use folio_types::op::{Expected, OpResult, Target};
use folio_types::tag::Tag;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{self, Paging, SEARCH, TAG_HINT, object, optional, paging, required, text};
use crate::decide::{done, misplanned, seed, write};
use crate::rules;
use crate::tool::{CallContext, Plan, ReadTool, Tool, ToolError, ToolOutput, ToolResources, WriteTool};

const COLOR: &str = "A color such as \"#1f77b4\".";

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::read(
            "get_tag",
            "Shows a tag: its name, color and description.",
            object(vec![required("tag_id", text("The tag, such as tag_…."))]),
            GetTag,
        ),
        Tool::read(
            "list_tags",
            "Lists the organization's tags, newest first.",
            object(paging().into_iter().chain([optional("name_search", text(SEARCH))]).collect()),
            ListTags,
        ),
        Tool::write(
            "create_tag",
            "Creates a tag. Gives the tag_id. A name can be taken once, without regard to case.",
            object(vec![
                required("name", text("The tag's name.")),
                optional("color", text(COLOR)),
                optional("description", text("What the tag is for.")),
            ]),
            CreateTag,
        ),
        Tool::write(
            "update_tag",
            "Changes a tag; what is left out stays.",
            object(vec![
                required("tag_id", text("The tag, such as tag_….")),
                optional("name", text("Its new name.")),
                optional("color", text("Its new color such as \"#1f77b4\"; an empty text takes it away.")),
                optional("description", text("Its new description; an empty text takes it away.")),
            ]),
            UpdateTag,
        ),
        Tool::write(
            "delete_tag",
            "Deletes a tag. Refused while a document or a prompt has it.",
            object(vec![required("tag_id", text("The tag, such as tag_…."))]),
            DeleteTag,
        ),
    ]
}

async fn find(resources: &ToolResources, context: &CallContext, id: &TagId) -> Result<Tag, ToolError> {
    let found = resources.stores.tags.get(&context.principal.org, id).await?;
    found.ok_or_else(|| ToolError::Told(format!("There is no tag {id}; list_tags shows what there is.")))
}

fn show(tag: Tag) -> Value {
    json!({ "tag_id": tag.id, "name": tag.name, "color": tag.color, "description": tag.description })
}

struct GetTag;

#[derive(Deserialize)]
struct Id {
    tag_id: String,
}

#[async_trait]
impl ReadTool for GetTag {
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let Id { tag_id } = arguments::read(&arguments)?;
        let id = arguments::id("tag_id", &tag_id, TAG_HINT)?;
        Ok(ToolOutput::new(show(find(resources, context, &id).await?)))
    }
}

struct ListTags;

#[derive(Deserialize)]
struct List {
    #[serde(flatten)]
    paging: Paging,
    name_search: Option<String>,
}

#[async_trait]
impl ReadTool for ListTags {
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let List { paging, name_search } = arguments::read(&arguments)?;
        let filter = TagFilter { name_search: arguments::search(name_search)? };
        let page = resources.stores.tags.list(&context.principal.org, &filter, &paging.request()).await?;
        Ok(ToolOutput::new(paging.list("tags", page, show)))
    }
}

struct CreateTag;

#[derive(Deserialize)]
struct Create {
    name: String,
    color: Option<String>,
    description: Option<String>,
}

impl Create {
    fn checked(arguments: &Value) -> Result<Self, ToolError> {
        let read: Self = arguments::read(arguments)?;
        rules::check_name("name", &read.name)?;
        Ok(Self {
            name: read.name,
            color: color(read.color)?.flatten(),
            description: description(read.description)?.flatten(),
        })
    }
}

/// A color that the model gave; the inner none, from an empty text, takes it away.
fn color(given: Option<String>) -> Result<Option<Option<String>>, ToolError> {
    match given {
        None => Ok(None),
        Some(text) if text.is_empty() => Ok(Some(None)),
        Some(text) => Ok(Some(Some(rules::check_color("color", &text)?))),
    }
}

/// A description that the model gave, likewise.
fn description(given: Option<String>) -> Result<Option<Option<String>>, ToolError> {
    let Some(text) = given else { return Ok(None) };
    rules::check_description("description", &text)?;
    Ok(Some(Some(text).filter(|text| !text.is_empty())))
}

#[async_trait]
impl WriteTool for CreateTag {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let create = Create::checked(arguments)?;
        if let Some(there) = resources.stores.tags.by_name(&context.principal.org, &create.name).await? {
            let text = format!("There is a tag {:?} already: {}. Use it, or update_tag.", there.name, there.id);
            return Err(ToolError::Told(text));
        }
        let [org, call] = seed(context);
        let target = Target::Tag(TagId::derive(&[&org, &call]));
        Ok(Plan { target, expected: Expected::Absent, resolved: Value::Null })
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        let Create { name, color, description } = Create::checked(arguments)?;
        decide(resources, context, arguments, plan, TagChange::Create { name, color, description }).await
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

struct UpdateTag;

#[derive(Deserialize)]
struct Update {
    tag_id: String,
    name: Option<String>,
    color: Option<String>,
    description: Option<String>,
}

impl Update {
    fn checked(arguments: &Value) -> Result<(String, TagChange), ToolError> {
        let read: Self = arguments::read(arguments)?;
        if read.name.is_none() && read.color.is_none() && read.description.is_none() {
            return Err(ToolError::Told("Nothing to change: give name, color or description.".to_owned()));
        }
        if let Some(name) = &read.name {
            rules::check_name("name", name)?;
        }
        let change = TagChange::Update {
            name: read.name,
            color: color(read.color)?,
            description: description(read.description)?,
        };
        Ok((read.tag_id, change))
    }
}

#[async_trait]
impl WriteTool for UpdateTag {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let (tag_id, _) = Update::checked(arguments)?;
        plan_existing(resources, context, &tag_id).await
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        let (_, change) = Update::checked(arguments)?;
        decide(resources, context, arguments, plan, change).await
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

struct DeleteTag;

#[async_trait]
impl WriteTool for DeleteTag {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let Id { tag_id } = arguments::read(arguments)?;
        plan_existing(resources, context, &tag_id).await
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        decide(resources, context, arguments, plan, TagChange::Delete).await
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

async fn plan_existing(resources: &ToolResources, context: &CallContext, id: &str) -> Result<Plan, ToolError> {
    let id = arguments::id("tag_id", id, TAG_HINT)?;
    let there = find(resources, context, &id).await?;
    Ok(Plan { target: Target::Tag(id), expected: Expected::Version(there.version), resolved: Value::Null })
}

async fn decide(
    resources: &ToolResources,
    context: &CallContext,
    arguments: &Value,
    plan: &Plan,
    change: TagChange,
) -> Result<ToolOutput, ToolError> {
    let Target::Tag(id) = &plan.target else { return Err(misplanned()) };
    let write = write(resources, context, arguments, plan, change);
    let result = done(resources.stores.tags.decide(id, write).await?)?;
    Ok(output(&plan.target, result))
}

fn output(target: &Target, result: OpResult) -> ToolOutput {
    ToolOutput::new(match (result, target) {
        (OpResult::Tag { id, name }, _) => json!({ "tag_id": id, "name": name }),
        (OpResult::Deleted, Target::Tag(id)) => json!({ "deleted": id }),
        (other, _) => json!(other),
    })
}
