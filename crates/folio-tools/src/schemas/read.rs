//! The tools `get_schema` and `list_schemas`.

use async_trait::async_trait;

use serde::Deserialize;
use serde_json::{Value, json};

use super::revid;
use crate::arguments::{self, Paging, name_search, paging, required, text};
use crate::call::{ReadCall, read_tool};
use crate::subject::find_revision;
use crate::tool::{CallContext, Tool, ToolError};
use folio_resources::{Schema, SchemaFilter};

pub(super) fn tools() -> Vec<Tool> {
    let get = read_tool::<GetSchema>(
        "get_schema",
        "Returns one version of a schema. Call it before update_schema. Result: schema_revid, schema_id, version, \
         name, strict, response_format.",
        vec![required("schema_revid", text("Id of the version, such as sch_….1."))],
    );
    let list = read_tool::<ListSchemas>(
        "list_schemas",
        "Returns the schemas, newest first. Call it to find a schema to reuse. Result: total, skip, schemas \
         (schema_id, schema_revid, version, name, strict).",
        paging().into_iter().chain([name_search()]).collect(),
    );
    vec![get, list]
}

#[derive(Deserialize)]
struct GetSchema {
    schema_revid: String,
}

#[async_trait]
impl ReadCall for GetSchema {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let found = find_revision::<Schema>(context, &revid(context, &self.schema_revid).await?).await?;
        Ok(json!({
            "schema_revid": found.revid,
            "schema_id": found.revid.of,
            "version": found.revid.version,
            "name": found.name,
            "strict": found.strict,
            "response_format": found.response_format,
        }))
    }
}

#[derive(Deserialize)]
struct ListSchemas {
    #[serde(flatten)]
    paging: Paging,
    name_search: Option<String>,
}

#[async_trait]
impl ReadCall for ListSchemas {
    async fn run(self, context: &CallContext) -> Result<Value, ToolError> {
        let filter = SchemaFilter { name_search: arguments::search(self.name_search)?, ..SchemaFilter::default() };
        let page = context.store::<Schema>().list(&context.principal.org, &filter, &self.paging.request()).await?;
        Ok(self.paging.list("schemas", page, |schema| {
            json!({
                "schema_id": schema.id,
                "schema_revid": schema.latest.revid,
                "version": schema.latest.revid.version,
                "name": schema.latest.name,
                "strict": schema.latest.strict,
            })
        }))
    }
}
