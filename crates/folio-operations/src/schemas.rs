//! Operations on schemas. They apply the same rules as the tools, unless the input allows schemas that are not strict.

use folio_llm::schema::{CheckedFormat, Rules, Violation, check_response_format};
use folio_resources::{ReviewRule, Schema, SchemaChange, SchemaFilter, SchemaRevision};
use folio_tools::{extraction, rules};
use folio_types::access::Scope;
use folio_types::{Etag, Result, SchemaId};
use serde::Serialize;
use serde_json::Value;

use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::grid::{Column, Grid, GridRows};
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest};
use crate::operation::{Operation, delete_operation, revision_operations};
use crate::proposals::{Listed, mark_schemas};
use crate::reference::SchemaRef;

service! {
    "SchemaService", Some(Scope::Definitions) =>
    CreateSchema, GetSchemaRevision, ListSchemas, ListSchemaRevisions, UpdateSchema, DeleteSchema, ValidateSchema,
    ValidateData
}

/// A resource after an update, and whether the update created a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct UpdateResult<R> {
    pub resource: R,
    /// False if the update changed nothing or only the name.
    pub revised: bool,
}

/// Creates a schema, or a revision of the schema with this name (case-insensitive).
#[derive(Debug, Clone, Serialize)]
pub struct CreateSchema {
    pub name: String,
    /// `{type: "json_schema", json_schema: {name, schema, strict}}`.
    pub response_format: Value,
    /// Accepts any valid schema of JSON Schema draft 7.
    pub allow_non_strict: bool,
}

impl Operation for CreateSchema {
    const DECLARATION: Declaration = SERVICE.change("CreateSchema");
    type Output = Schema;

    async fn run(self, context: &Context) -> Result<Schema> {
        folio_resources::fields::check_name("schema.name", &self.name)?;
        let CheckedFormat { response_format, strict } = check_format(&self.response_format, self.allow_non_strict)?;
        let format = Some((response_format.clone(), strict));
        let revise = SchemaChange::Update { name: None, response_format: format, review_rule: None };
        let create = SchemaChange::Create { name: self.name.clone(), response_format, strict };
        let (request, stores) = (&context.request, context.stores());
        let write = request.create_or_revise::<Schema>(stores, &self.name, create, revise);
        let id = request.once::<Schema>(stores, write).await?;
        context.find(&id).await
    }
}

revision_operations! {
    GetSchemaRevision { schema_revid: SchemaRef } -> SchemaRevision,
    /// Lists the revisions of a schema. Filter: none.
    ListSchemaRevisions { schema_id: SchemaId } of Schema
}

/// The columns of the grid of [`ListSchemas`].
pub const COLUMNS: &[Column] = <Schema as GridRows>::COLUMNS;

/// Lists schemas. Filter: `name:` a part of the name, `name=` the name.
#[derive(Debug, Clone, Serialize)]
pub struct ListSchemas {
    pub list: ListRequest,
}

impl Operation for ListSchemas {
    const DECLARATION: Declaration = SERVICE.read("ListSchemas");
    type Output = ListPage<Listed<Schema>>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        let (name_search, name) = filter::name_conditions(&self.list.filter)?;
        let filter = SchemaFilter { name_search: Grid::name_search(name_search, self.list.grid.as_ref()), name };
        let page = context.list_with_grid::<Schema>(&self.list, &filter, LARGE_PAGE_MAX).await?;
        mark_schemas(context, page).await
    }
}

/// Changes name, response format or review rule of a schema. A field that is None keeps its value. A request creates a revision
/// only if it changes the response format.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateSchema {
    pub schema_id: SchemaId,
    pub name: Option<String>,
    pub response_format: Option<Value>,
    /// Accepts any valid schema of JSON Schema draft 7.
    pub allow_non_strict: bool,
    /// The inner None removes the rule.
    pub review_rule: Option<Option<ReviewRule>>,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateSchema {
    const DECLARATION: Declaration = SERVICE.change("UpdateSchema");
    type Output = UpdateResult<Schema>;

    async fn run(self, context: &Context) -> Result<UpdateResult<Schema>> {
        if let Some(name) = &self.name {
            folio_resources::fields::check_name("schema.name", name)?;
        }
        let format =
            self.response_format.as_ref().map(|format| check_format(format, self.allow_non_strict)).transpose()?;
        let response_format = format.map(|format| (format.response_format, format.strict));
        if let Some(Some(rule)) = &self.review_rule {
            let field = "schema.review_rule";
            extraction::check_rule(field, rule, None)?;
            let schema = match &response_format {
                Some((format, _)) => format.clone(),
                None => context.find::<Schema>(&self.schema_id).await?.latest.response_format,
            };
            let schema = schema.pointer("/json_schema/schema").unwrap_or(&Value::Null);
            extraction::check_rule(field, rule, Some(schema))?;
        }
        let change = SchemaChange::Update { name: self.name, response_format, review_rule: self.review_rule };
        context.revise(&self.schema_id, self.etag, change).await
    }
}

delete_operation! {
    /// Deletes a schema with all its revisions. Error: `IN_USE` while prompts refer to the schema.
    DeleteSchema { schema_id: SchemaId } of Schema
}

/// Checks a response format without storing it.
#[derive(Debug, Clone, Serialize)]
pub struct ValidateSchema {
    pub response_format: Value,
    /// Accepts any valid schema of JSON Schema draft 7.
    pub allow_non_strict: bool,
}

impl Operation for ValidateSchema {
    const DECLARATION: Declaration = SERVICE.read("ValidateSchema");
    type Output = Vec<Violation>;

    async fn run(self, _: &Context) -> Result<Vec<Violation>> {
        let checked = check_response_format(&self.response_format, rules_for(self.allow_non_strict));
        Ok(checked.err().unwrap_or_default())
    }
}

/// Checks data against a revision of a schema.
#[derive(Debug, Clone, Serialize)]
pub struct ValidateData {
    pub schema_revid: SchemaRef,
    pub data: Value,
}

impl Operation for ValidateData {
    const DECLARATION: Declaration = SERVICE.read("ValidateData");
    type Output = Vec<Violation>;

    async fn run(self, context: &Context) -> Result<Vec<Violation>> {
        let schema = context.revision::<Schema>(&self.schema_revid).await?;
        rules::violations_of("schema_revid", &schema, &self.data).await
    }
}

fn rules_for(allow_non_strict: bool) -> Rules {
    if allow_non_strict { Rules::AllowNonStrict } else { Rules::Strict }
}

fn check_format(format: &Value, allow_non_strict: bool) -> Result<CheckedFormat> {
    rules::check_format("schema.response_format_json", format, rules_for(allow_non_strict))
}
