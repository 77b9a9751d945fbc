//! `get_tag` and `list_tags`.

use async_trait::async_trait;
use folio_storage::TagFilter;
use folio_types::tag::Tag;
use serde::Deserialize;
use serde_json::{Value, json};

use super::which;
use crate::arguments::{self, Paging, name_search, paging};
use crate::call::{ReadCall, reads};
use crate::subject::find_named;
use crate::tool::{CallContext, Tool, ToolError, ToolResources};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        reads::<GetTag>("get_tag", "Shows a tag: its name, color and description.", vec![which()]),
        reads::<ListTags>(
            "list_tags",
            "Lists the organization's tags, newest first. total says how many there are.",
            paging().into_iter().chain([name_search()]).collect(),
        ),
    ]
}

#[derive(Deserialize)]
struct GetTag {
    tag_id: String,
}

#[async_trait]
impl ReadCall for GetTag {
    async fn answer(self, resources: &ToolResources, context: &CallContext) -> Result<Value, ToolError> {
        find_named(resources, context, Some(&self.tag_id)).await.map(show)
    }
}

#[derive(Deserialize)]
struct ListTags {
    #[serde(flatten)]
    paging: Paging,
    name_search: Option<String>,
}

#[async_trait]
impl ReadCall for ListTags {
    async fn answer(self, resources: &ToolResources, context: &CallContext) -> Result<Value, ToolError> {
        let filter = TagFilter { name_search: arguments::search(self.name_search)? };
        let page = resources.stores.tags.list(&context.principal.org, &filter, &self.paging.request()).await?;
        Ok(self.paging.list("tags", page, show))
    }
}

fn show(tag: Tag) -> Value {
    json!({ "tag_id": tag.id, "name": tag.name, "color": tag.color, "description": tag.description })
}
