//! The tools `get_tag` and `list_tags`.

use async_trait::async_trait;

use serde::Deserialize;
use serde_json::{Value, json};

use super::tag_id;
use crate::arguments::{self, Paging, name_search, paging};
use crate::call::{ReadCall, read_tool};
use crate::subject::find_by_argument;
use crate::tool::{CallContext, Tool, ToolError};
use folio_resources::{Tag, TagFilter};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        read_tool::<GetTag>("get_tag", "Returns one tag. Result: tag_id, name, color, description.", vec![tag_id()]),
        read_tool::<ListTags>(
            "list_tags",
            "Returns the tags of the organization, newest first. Call it to find a tag_id, and before create_tag. \
             Result: total, skip, tags (tag_id, name, color, description).",
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
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        find_by_argument(context, Some(&self.tag_id)).await.map(summary)
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
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let filter = TagFilter { name_search: arguments::search(self.name_search)?, ..TagFilter::default() };
        let page = context.store::<Tag>().list(&context.principal.org, &filter, &self.paging.request()).await?;
        Ok(self.paging.list("tags", page, summary))
    }
}

fn summary(tag: Tag) -> Value {
    json!({ "tag_id": tag.id, "name": tag.name, "color": tag.color, "description": tag.description })
}
