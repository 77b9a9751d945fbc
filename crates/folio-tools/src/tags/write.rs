//! The tools `create_tag` and `update_tag`.

use async_trait::async_trait;
use folio_types::limits::NAME_CHARS;
use serde::Deserialize;
use serde_json::Value;

use super::tag_id;
use crate::arguments::{self, optional, required, text};
use crate::call::{WriteCall, write_tool};
use crate::subject;
use crate::tool::{CallContext, Plan, Tool, ToolError};
use folio_resources::{DESCRIPTION_CHARS, Kind, Resource, Tag, TagChange, check_color, check_description};

pub(super) fn tools() -> Vec<Tool> {
    let purpose = format!("Purpose, at most {DESCRIPTION_CHARS} characters. Default: none.");
    let create = write_tool::<CreateTag>(
        "create_tag",
        "Creates a tag. If the name is taken, ignoring case, fails with the tag_id that has it. Result: tag_id, name.",
        vec![
            required("name", text(&format!("Name, 1 to {NAME_CHARS} characters."))),
            optional("color", text("Color, such as \"#1f77b4\". Default: none.")).or_empty(),
            optional("description", text(&purpose)).or_empty(),
        ],
    );
    let update = write_tool::<UpdateTag>(
        "update_tag",
        "Updates the name, color or description of a tag. Omitted arguments stay unchanged; at least one is \
         required. Result: tag_id, name.",
        vec![
            tag_id(),
            optional("name", text(&format!("New name, 1 to {NAME_CHARS} characters."))),
            optional("color", text("New color, such as \"#1f77b4\"; \"\" removes it.")),
            optional("description", text("New purpose; \"\" removes it.")),
        ],
    );
    vec![create, update]
}

/// Arguments of both tools.
#[derive(Deserialize)]
struct TagArguments {
    tag_id: Option<String>,
    name: Option<String>,
    color: Option<String>,
    description: Option<String>,
}

impl TagArguments {
    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        let input: Self = arguments::parse(arguments)?;
        if let Some(name) = &input.name {
            folio_resources::fields::check_name("name", name)?;
        }
        Ok(input)
    }

    /// Returns the new color. `Some(None)`, from an empty text, removes it.
    fn color(&self) -> Result<Option<Option<String>>, ToolError> {
        Ok(self.color.as_deref().map(|text| check_color("color", text)).transpose()?)
    }

    /// Returns the new description. `Some(None)`, from an empty text, removes it.
    fn description(&self) -> Result<Option<Option<String>>, ToolError> {
        Ok(self.description.as_deref().map(|text| check_description("description", text)).transpose()?)
    }
}

struct CreateTag {
    name: String,
    change: TagChange,
}

#[async_trait]
impl WriteCall for CreateTag {
    type Target = Tag;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        let input = TagArguments::parse(arguments)?;
        let (color, description) = (input.color()?.flatten(), input.description()?.flatten());
        let name = input.name.unwrap_or_default();
        Ok(Self { change: TagChange::Create { name: name.clone(), color, description }, name })
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        // The deciding write refuses a taken name by itself, which saves a read per call. A preview has no deciding write.
        if context.is_preview
            && let Some(existing) = context.store::<Tag>().by_name(&context.principal.org, &self.name).await?
        {
            return Err(Kind::name_taken(Tag::KIND, &existing.name, existing.id.as_str()).into());
        }
        Ok(subject::plan_new::<Tag>(context))
    }

    async fn change(self, _: &CallContext, _: &Plan) -> Result<TagChange, ToolError> {
        Ok(self.change)
    }
}

struct UpdateTag {
    tag_id: Option<String>,
    change: TagChange,
}

#[async_trait]
impl WriteCall for UpdateTag {
    type Target = Tag;

    fn parse(arguments: &Value) -> Result<Self, ToolError> {
        let input = TagArguments::parse(arguments)?;
        if input.name.is_none() && input.color.is_none() && input.description.is_none() {
            return Err(ToolError::ForModel("Nothing to change: pass name, color or description.".to_owned()));
        }
        let (color, description) = (input.color()?, input.description()?);
        Ok(Self { tag_id: input.tag_id, change: TagChange::Update { name: input.name, color, description } })
    }

    async fn plan(&self, context: &CallContext) -> Result<Plan, ToolError> {
        subject::plan_existing::<Tag>(context, self.tag_id.as_deref()).await
    }

    async fn change(self, _: &CallContext, _: &Plan) -> Result<TagChange, ToolError> {
        Ok(self.change)
    }
}
