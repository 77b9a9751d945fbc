//! `create_tag` and `update_tag`.

use async_trait::async_trait;
use folio_storage::{Named as _, TagChange};
use folio_types::tag::Tag;
use serde::Deserialize;
use serde_json::Value;

use super::which;
use crate::arguments::{self, optional, required, text};
use crate::call::{WriteCall, writes};
use crate::tool::{CallContext, Plan, Tool, ToolError, ToolResources};
use crate::{rules, subject};

pub(super) fn tools() -> Vec<Tool> {
    let create = writes::<CreateTag>(
        "create_tag",
        "Creates a tag. Gives the tag_id. A name can be taken once, without regard to case.",
        vec![
            required("name", text("The tag's name: at most 200 characters.")),
            optional("color", text("A color such as \"#1f77b4\".")).or_empty(),
            optional("description", text("What the tag is for.")).or_empty(),
        ],
    );
    let update = writes::<UpdateTag>(
        "update_tag",
        "Changes a tag; what is left out stays.",
        vec![
            which(),
            optional("name", text("Its new name.")),
            optional("color", text("Its new color such as \"#1f77b4\"; an empty text takes it away.")),
            optional("description", text("Its new description; an empty text takes it away.")),
        ],
    );
    vec![create, update]
}

/// What a model says of a tag.
#[derive(Deserialize)]
struct Given {
    tag_id: Option<String>,
    name: Option<String>,
    color: Option<String>,
    description: Option<String>,
}

impl Given {
    fn read(arguments: &Value) -> Result<Self, ToolError> {
        let given: Self = arguments::read(arguments)?;
        if let Some(name) = &given.name {
            rules::check_name("name", name)?;
        }
        Ok(given)
    }

    /// The color; the inner none, from an empty text, takes it away.
    fn color(&self) -> Result<Option<Option<String>>, ToolError> {
        let Some(text) = &self.color else { return Ok(None) };
        Ok(Some(if text.is_empty() { None } else { Some(rules::check_color("color", text)?) }))
    }

    /// The description, likewise.
    fn description(&self) -> Result<Option<Option<String>>, ToolError> {
        let Some(text) = &self.description else { return Ok(None) };
        rules::check_description("description", text)?;
        Ok(Some(Some(text.clone()).filter(|text| !text.is_empty())))
    }
}

struct CreateTag {
    name: String,
    change: TagChange,
}

#[async_trait]
impl WriteCall for CreateTag {
    type Of = Tag;

    fn read(arguments: &Value) -> Result<Self, ToolError> {
        let given = Given::read(arguments)?;
        let (color, description) = (given.color()?.flatten(), given.description()?.flatten());
        let name = given.name.unwrap_or_default();
        Ok(Self { change: TagChange::Create { name: name.clone(), color, description }, name })
    }

    async fn plan(&self, resources: &ToolResources, context: &CallContext) -> Result<Plan, ToolError> {
        match Tag::by_name(&resources.stores, &context.principal.org, &self.name).await? {
            Some(there) => Err(ToolError::Told(format!(
                "There is a tag {:?} already: {}. Use it, or update_tag.",
                there.name, there.id
            ))),
            None => Ok(subject::new::<Tag>(context)),
        }
    }

    async fn change(self, _: &ToolResources, _: &CallContext, _: &Plan) -> Result<TagChange, ToolError> {
        Ok(self.change)
    }
}

struct UpdateTag {
    tag_id: Option<String>,
    change: TagChange,
}

#[async_trait]
impl WriteCall for UpdateTag {
    type Of = Tag;

    fn read(arguments: &Value) -> Result<Self, ToolError> {
        let given = Given::read(arguments)?;
        if given.name.is_none() && given.color.is_none() && given.description.is_none() {
            return Err(ToolError::Told("Nothing to change: give name, color or description.".to_owned()));
        }
        let (color, description) = (given.color()?, given.description()?);
        Ok(Self { tag_id: given.tag_id, change: TagChange::Update { name: given.name, color, description } })
    }

    async fn plan(&self, resources: &ToolResources, context: &CallContext) -> Result<Plan, ToolError> {
        subject::existing::<Tag>(resources, context, self.tag_id.as_deref()).await
    }

    async fn change(self, _: &ToolResources, _: &CallContext, _: &Plan) -> Result<TagChange, ToolError> {
        Ok(self.change)
    }
}
