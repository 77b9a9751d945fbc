//! Tools of tags.

mod change;
mod show;

use folio_types::TagId;
use folio_types::tag::Tag;

use crate::arguments::{Argument, required, text};
use crate::call::deletes;
use crate::subject::Subject;
use crate::tool::{CallContext, Tool, ToolError, ToolResources};

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    let mut tools = show::tools();
    tools.extend(change::tools());
    tools.push(deletes::<Tag>(
        "delete_tag",
        "Deletes a tag; it cannot be undone. Refused while a document or a prompt has it; the error names them.",
        which(),
    ));
    tools
}

impl Subject for Tag {
    const ARGUMENT: &'static str = "tag_id";
    const HINT: &'static str = "a tag_id looks like tag_…; list_tags shows them.";
    const LIST: &'static str = "list_tags";
}

fn which() -> Argument {
    required("tag_id", text("The tag, such as tag_…."))
}

/// Whether all these tags are there; the first that is not is told.
pub(crate) async fn check_there(
    resources: &ToolResources,
    context: &CallContext,
    tags: &[TagId],
) -> Result<(), ToolError> {
    let there = resources.stores.tags.get_many(&context.principal.org, tags).await?;
    match tags.iter().find(|id| !there.iter().any(|tag| tag.id == **id)) {
        Some(missing) => Err(Tag::missing(context, missing)),
        None => Ok(()),
    }
}
