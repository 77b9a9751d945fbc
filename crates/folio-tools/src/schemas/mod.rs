//! Tools of schemas.

mod create;
mod show;
mod update;
mod validate;

use folio_types::SchemaRevId;
use folio_types::schema::{Schema, SchemaRevision};

use crate::arguments::{self, Argument, required, text};
use crate::call::deletes;
use crate::subject::Subject;
use crate::tool::{CallContext, Tool, ToolError, ToolResources};

const FORMAT: &str = "The whole response format: {\"type\": \"json_schema\", \"json_schema\": {\"name\": …, \
                      \"schema\": {…}, \"strict\": true}}. At each level every property is in \"required\" and \
                      \"additionalProperties\" is false.";
const REVID_HINT: &str =
    "a schema_revid is a schema_id, a dot and a version, such as sch_….1; list_schemas shows them.";

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    let mut tools = show::tools();
    tools.extend(validate::tools());
    tools.push(create::tool());
    tools.push(update::tool());
    tools.push(deletes::<Schema>(
        "delete_schema",
        "Deletes a schema with all its versions; it cannot be undone. Refused while a prompt uses any of them; the \
         error names the prompts.",
        which(),
    ));
    tools
}

impl Subject for Schema {
    const ARGUMENT: &'static str = "schema_id";
    const HINT: &'static str =
        "a schema_id looks like sch_…, without the .version that a schema_revid has; list_schemas shows them.";
    const LIST: &'static str = "list_schemas";
}

fn which() -> Argument {
    required("schema_id", text("The schema, such as sch_… (without a version)."))
}

/// The revision that the model named, of a live schema of the organization.
async fn revision(
    resources: &ToolResources,
    context: &CallContext,
    schema_revid: &str,
) -> Result<SchemaRevision, ToolError> {
    let revid: SchemaRevId = arguments::id("schema_revid", schema_revid, REVID_HINT)?;
    let found = resources.stores.schemas.revision(&context.principal.org, &revid).await?;
    found.ok_or_else(|| {
        ToolError::Told(format!("There is no schema revision {revid}; list_schemas shows what there is."))
    })
}
