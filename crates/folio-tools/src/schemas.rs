//! Tools of schemas.

use async_trait::async_trait;
use folio_llm::schema::{self, Rules, Violation, check_response_format, check_schema, normalize};
use folio_storage::{SchemaChange, SchemaFilter};
use folio_types::journal::WorkingChange;
use folio_types::op::{Expected, OpResult, Target};
use folio_types::schema::{Schema, SchemaRevision};
use folio_types::{Error, SchemaId, SchemaRevId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{
    self, Paging, SCHEMA_HINT, SCHEMA_REVID_HINT, SEARCH, anything, object, object_or_text, optional, paging, required,
    text,
};
use crate::decide::{done, misplanned, seed, write};
use crate::rules;
use crate::tool::{CallContext, Plan, ReadTool, Tool, ToolError, ToolOutput, ToolResources, WriteTool};

const FORMAT: &str = "The whole response format: {\"type\": \"json_schema\", \"json_schema\": {\"name\": …, \
                      \"schema\": {…}, \"strict\": true}}. At each level every property is in \"required\" and \
                      \"additionalProperties\" is false. Call validate_schema with it first.";

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::read(
            "get_schema",
            "Shows one revision of a schema: its name and its whole response format.",
            object(vec![required("schema_revid", text("The revision, such as sch_….1."))]),
            GetSchema,
        ),
        Tool::read(
            "list_schemas",
            "Lists the organization's schemas, newest first, each with its newest revision.",
            object(Vec::from(paging()).into_iter().chain([optional("name_search", text(SEARCH))]).collect()),
            ListSchemas,
        ),
        Tool::read(
            "validate_schema",
            "Checks a response format without storing it. Always call this before create_schema or update_schema. \
             Gives every violation with its path.",
            object(vec![required("schema", object_or_text(FORMAT))]),
            ValidateSchema,
        ),
        Tool::read(
            "validate_against_schema",
            "Checks data against a stored schema. Gives every violation with its path.",
            object(vec![
                required("schema_revid", text("The revision to check against, such as sch_….1.")),
                required("data", anything("The data, as JSON.")),
            ]),
            ValidateAgainstSchema,
        ),
        Tool::write(
            "create_schema",
            "Creates a schema. Where one of that name is there already, this makes its next version. Gives the \
             schema_revid.",
            object(vec![
                required("name", text("The schema's name, for people.")),
                required("response_format", object_or_text(FORMAT)),
            ]),
            CreateSchema,
        ),
        Tool::write(
            "update_schema",
            "Makes a new version of a schema, or renames it. An unchanged response format makes no version. Gives the \
             schema_revid.",
            object(vec![
                required("schema_id", text("The schema, such as sch_….")),
                optional("name", text("Its new name, where it changes.")),
                optional("response_format", object_or_text(FORMAT)),
            ]),
            UpdateSchema,
        ),
        Tool::write(
            "delete_schema",
            "Deletes a schema with all its versions. Refused while a prompt uses it.",
            object(vec![required("schema_id", text("The schema, such as sch_…."))]),
            DeleteSchema,
        ),
    ]
}

/// The revision that the model named, of a live schema of the organization.
pub(crate) async fn revision(
    resources: &ToolResources,
    context: &CallContext,
    revid: &SchemaRevId,
) -> Result<SchemaRevision, ToolError> {
    let found = resources.stores.schemas.revision(&context.principal.org, revid).await?;
    found.ok_or_else(|| {
        ToolError::Told(format!("There is no schema revision {revid}; list_schemas shows what there is."))
    })
}

/// The live schema that the model named.
pub(crate) async fn find(resources: &ToolResources, context: &CallContext, id: &SchemaId) -> Result<Schema, ToolError> {
    let found = resources.stores.schemas.get(&context.principal.org, id).await?;
    found.ok_or_else(|| ToolError::Told(format!("There is no schema {id}; list_schemas shows what there is.")))
}

struct GetSchema;

#[derive(Deserialize)]
struct Revid {
    schema_revid: String,
}

#[async_trait]
impl ReadTool for GetSchema {
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let Revid { schema_revid } = arguments::read(&arguments)?;
        let revid = arguments::id("schema_revid", &schema_revid, SCHEMA_REVID_HINT)?;
        let found = revision(resources, context, &revid).await?;
        Ok(ToolOutput::new(json!({
            "schema_revid": found.revid,
            "schema_id": found.revid.of,
            "version": found.revid.version,
            "name": found.name,
            "strict": found.strict,
            "response_format": found.response_format,
        })))
    }
}

struct ListSchemas;

#[derive(Deserialize)]
struct List {
    #[serde(flatten)]
    paging: Paging,
    name_search: Option<String>,
}

#[async_trait]
impl ReadTool for ListSchemas {
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let List { paging, name_search } = arguments::read(&arguments)?;
        let filter = SchemaFilter { name_search: arguments::search(name_search)? };
        let page = resources.stores.schemas.list(&context.principal.org, &filter, &paging.request()).await?;
        Ok(ToolOutput::new(paging.list("schemas", page, |schema| {
            json!({
                "schema_id": schema.id,
                "schema_revid": schema.latest.revid,
                "version": schema.latest.revid.version,
                "name": schema.latest.name,
                "strict": schema.latest.strict,
            })
        })))
    }
}

struct ValidateSchema;

#[derive(Deserialize)]
struct SchemaArgument {
    schema: Value,
}

#[async_trait]
impl ReadTool for ValidateSchema {
    async fn run(&self, _: &ToolResources, _: &CallContext, arguments: Value) -> Result<ToolOutput, ToolError> {
        let SchemaArgument { schema } = arguments::read(&arguments)?;
        Ok(ToolOutput::new(match normalize(&schema) {
            Ok(format) => validity(&format),
            Err(violations) => invalid(&violations),
        }))
    }
}

/// What `validate_schema` says. A schema that came without its response format is checked all the same, so that the
/// model learns of everything at once.
fn validity(format: &Value) -> Value {
    let violations = match check_response_format(format, Rules::Strict) {
        Ok(_) => return json!({ "valid": true }),
        Err(violations) => violations,
    };
    if format.get("json_schema").is_some() || format.get("type").is_none_or(|kind| kind == "json_schema") {
        return invalid(&violations);
    }
    let mut bare = check_schema(format, Rules::Strict);
    bare.push(Violation {
        path: "#".to_owned(),
        message: "this is the schema alone: wrap it as {\"type\": \"json_schema\", \"json_schema\": {\"name\": …, \
                  \"schema\": <this>, \"strict\": true}}"
            .to_owned(),
    });
    invalid(&bare)
}

fn invalid(violations: &[Violation]) -> Value {
    json!({ "valid": false, "violations": violations })
}

struct ValidateAgainstSchema;

#[derive(Deserialize)]
struct SchemaData {
    schema_revid: String,
    data: Value,
}

#[async_trait]
impl ReadTool for ValidateAgainstSchema {
    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: Value,
    ) -> Result<ToolOutput, ToolError> {
        let SchemaData { schema_revid, data } = arguments::read(&arguments)?;
        let revid = arguments::id("schema_revid", &schema_revid, SCHEMA_REVID_HINT)?;
        let found = revision(resources, context, &revid).await?;
        // Data written as a text that holds an object or a list is meant as that.
        let data = match &data {
            Value::String(written) => serde_json::from_str(written)
                .ok()
                .filter(|inner: &Value| inner.is_object() || inner.is_array())
                .unwrap_or(data),
            _ => data,
        };
        let violations = violations_of(&found, &data).await?;
        Ok(ToolOutput::new(if violations.is_empty() { json!({ "valid": true }) } else { invalid(&violations) }))
    }
}

/// What is wrong with data, held against a stored schema.
pub(crate) async fn violations_of(schema: &SchemaRevision, data: &Value) -> Result<Vec<Violation>, Error> {
    let Some(inner) = schema.schema() else {
        return Err(Error::new(
            folio_types::Code::DataLoss,
            folio_types::Reason::StoredFormat,
            format!("schema revision {} holds no schema", schema.revid),
        ));
    };
    schema::validate_data(inner, data).await.map_err(|violations| rules::invalid_schema("schema", &violations))
}

struct CreateSchema;

#[derive(Deserialize)]
struct Create {
    name: String,
    response_format: Value,
}

#[async_trait]
impl WriteTool for CreateSchema {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let Create { name, response_format } = arguments::read(arguments)?;
        rules::check_name("name", &name)?;
        rules::check_format("response_format", &response_format, Rules::Strict)?;
        Ok(match resources.stores.schemas.by_name(&context.principal.org, &name).await? {
            Some(there) => Plan {
                target: Target::Schema(there.id),
                expected: Expected::Version(there.version),
                resolved: Value::Null,
            },
            None => {
                let [org, call] = seed(context);
                let id = SchemaId::derive(&[&org, &call]);
                Plan { target: Target::Schema(id), expected: Expected::Absent, resolved: Value::Null }
            }
        })
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        let Create { name, response_format } = arguments::read(arguments)?;
        let format = rules::check_format("response_format", &response_format, Rules::Strict)?;
        let change = match plan.expected {
            Expected::Absent => {
                SchemaChange::Create { name, response_format: format.response_format, strict: format.strict }
            }
            Expected::Version(_) => {
                SchemaChange::Update { name: None, response_format: Some((format.response_format, format.strict)) }
            }
        };
        decide(resources, context, arguments, plan, change).await
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

struct UpdateSchema;

#[derive(Deserialize)]
struct Update {
    schema_id: String,
    name: Option<String>,
    response_format: Option<Value>,
}

#[async_trait]
impl WriteTool for UpdateSchema {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let Update { schema_id, name, response_format } = arguments::read(arguments)?;
        if name.is_none() && response_format.is_none() {
            return Err(ToolError::Told("Nothing to change: give name, response_format or both.".to_owned()));
        }
        if let Some(name) = &name {
            rules::check_name("name", name)?;
        }
        if let Some(format) = &response_format {
            rules::check_format("response_format", format, Rules::Strict)?;
        }
        plan_existing(resources, context, &schema_id).await
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        let Update { name, response_format, .. } = arguments::read(arguments)?;
        let response_format = match response_format {
            Some(format) => {
                let checked = rules::check_format("response_format", &format, Rules::Strict)?;
                Some((checked.response_format, checked.strict))
            }
            None => None,
        };
        decide(resources, context, arguments, plan, SchemaChange::Update { name, response_format }).await
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

struct DeleteSchema;

#[derive(Deserialize)]
struct Id {
    schema_id: String,
}

#[async_trait]
impl WriteTool for DeleteSchema {
    async fn plan(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
    ) -> Result<Plan, ToolError> {
        let Id { schema_id } = arguments::read(arguments)?;
        plan_existing(resources, context, &schema_id).await
    }

    async fn run(
        &self,
        resources: &ToolResources,
        context: &CallContext,
        arguments: &Value,
        plan: &Plan,
    ) -> Result<ToolOutput, ToolError> {
        decide(resources, context, arguments, plan, SchemaChange::Delete).await
    }

    fn output(&self, target: &Target, result: OpResult) -> ToolOutput {
        output(target, result)
    }
}

async fn plan_existing(resources: &ToolResources, context: &CallContext, id: &str) -> Result<Plan, ToolError> {
    let id = arguments::id("schema_id", id, SCHEMA_HINT)?;
    let there = find(resources, context, &id).await?;
    Ok(Plan { target: Target::Schema(id), expected: Expected::Version(there.version), resolved: Value::Null })
}

async fn decide(
    resources: &ToolResources,
    context: &CallContext,
    arguments: &Value,
    plan: &Plan,
    change: SchemaChange,
) -> Result<ToolOutput, ToolError> {
    let Target::Schema(id) = &plan.target else { return Err(misplanned()) };
    let write = write(resources, context, arguments, plan, change);
    let result = done(resources.stores.schemas.decide(id, write).await?)?;
    Ok(output(&plan.target, result))
}

fn output(target: &Target, result: OpResult) -> ToolOutput {
    let mut change = WorkingChange::default();
    let content = match (result, target) {
        (OpResult::Schema { revid, name, revised }, _) => {
            change.schema_revid = Some(revid.clone());
            json!({
                "schema_revid": revid,
                "schema_id": revid.of,
                "version": revid.version,
                "name": name,
                "new_version": revised,
            })
        }
        (OpResult::Deleted, Target::Schema(id)) => {
            change.deleted_schema = Some(id.clone());
            json!({ "deleted": id })
        }
        (other, _) => json!(other),
    };
    ToolOutput { content, change }
}
