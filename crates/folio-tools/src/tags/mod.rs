//! Tools for tags.

mod read;
mod write;

use folio_resources::Tag;
use folio_types::TagId;

use crate::arguments::{Argument, required, text};
use crate::call::delete_tool;
use crate::subject::{ToolResource, not_found};
use crate::tool::{CallContext, Tool, ToolError};

pub(crate) fn tools() -> Vec<Tool> {
    let mut tools = read::tools();
    tools.extend(write::tools());
    tools.push(delete_tool::<Tag>(
        "delete_tag",
        "Deletes a tag. This cannot be undone. Fails while a document or a prompt has the tag; the error names \
         them. Result: deleted (the tag_id).",
        tag_id(),
    ));
    tools
}

impl ToolResource for Tag {
    const ARGUMENT: &'static str = "tag_id";
    const HINT: &'static str = "expected a tag_id such as tag_…; call list_tags to find it.";
    const LIST_TOOL: &'static str = "list_tags";
}

fn tag_id() -> Argument {
    required("tag_id", text("Id, such as tag_…."))
}

/// Checks that every tag exists. Fails with `ForModel`, the first tag that does not exist, and existing ones.
pub(crate) async fn check_exist(context: &CallContext, tags: &[TagId]) -> Result<(), ToolError> {
    let found = context.store::<Tag>().get_many(&context.principal.org, tags).await?;
    let missing = tags.iter().find(|id| !found.iter().any(|tag| tag.id == **id));
    match missing {
        Some(missing) => Err(not_found::<Tag>(context, missing).await),
        None => Ok(()),
    }
}
