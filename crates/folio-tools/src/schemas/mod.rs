//! Tools for schemas.

mod create;
mod read;
mod update;
mod validate;

use folio_resources::Schema;
use folio_types::SchemaRevId;

use crate::arguments::{Argument, required, text};
use crate::call::delete_tool;
use crate::subject::{ToolResource, parse_revid};
use crate::tool::{CallContext, Tool, ToolError};

const FORMAT: &str = "Response format with the schema, as in the example of create_schema.";

pub(crate) fn tools() -> Vec<Tool> {
    let mut tools = read::tools();
    tools.extend(validate::tools());
    tools.push(create::tool());
    tools.push(update::tool());
    tools.push(delete_tool::<Schema>(
        "delete_schema",
        "Deletes a schema with all its versions. This cannot be undone. Fails while a prompt uses it. Result: \
         deleted (the schema_id).",
        schema_id(),
    ));
    tools
}

impl ToolResource for Schema {
    const ARGUMENT: &'static str = "schema_id";
    const HINT: &'static str =
        "expected a schema_id such as sch_…, without the .version of a schema_revid; call list_schemas to find it.";
    const LIST_TOOL: &'static str = "list_schemas";
}

fn schema_id() -> Argument {
    required("schema_id", text("Id without a version, such as sch_…."))
}

async fn revid(context: &CallContext, text: &str) -> Result<SchemaRevId, ToolError> {
    let hint = "expected a schema_id, a dot and a version, such as sch_….1; call list_schemas to find it.";
    parse_revid::<Schema>(context, text, hint).await
}
