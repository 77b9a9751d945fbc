//! The routes of schemas.

use folio_llm::schema::Violation;
use folio_operations::prompts::GetPromptRevision;
use folio_operations::schemas::{
    CreateSchema, DeleteSchema, GetSchemaRevision, ListSchemaRevisions, ListSchemas, UpdateSchema, ValidateData,
};
use folio_operations::{PromptRef, SchemaRef};
use folio_resources::{Schema, SchemaRevision};
use folio_types::{Reason, SchemaId, SchemaRevId, Timestamp};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::endpoint::{delete, get, post, put};
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::grid::Field;
use super::list::{ListQuery, RowPage, versions};
use super::reply::{Message, Reply, Versioned};
use super::routes::{Level, Route, org_path, route};

const SCHEMAS: &str = org_path!("/schemas");
/// The id is one of a revision in GET, and one of a schema in PUT and DELETE.
const SCHEMA: &str = org_path!("/schemas/{schema_id}");

/// The fields that requests may sort and filter.
const FIELDS: &[Field] = &[
    Field::same("name"),
    Field::same("created_by"),
    Field::same("schema_id"),
    Field::same("schema_revid"),
    Field::time("created_at", "create_time"),
];

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<CreateSchema>(Level::One, post(SCHEMAS, create)),
        route::<ListSchemas>(Level::One, get(SCHEMAS, list)),
        route::<GetSchemaRevision>(Level::One, get(SCHEMA, find)),
        route::<UpdateSchema>(Level::One, put(SCHEMA, update)),
        route::<DeleteSchema>(Level::One, delete(SCHEMA, remove)),
        route::<ValidateData>(Level::One, post(org_path!("/schemas/{schema_revid}/validate"), validate)),
        route::<ListSchemaRevisions>(Level::One, get(org_path!("/schemas/{schema_id}/versions"), list_versions)),
    ]
}

/// A new schema.
#[derive(Debug, Deserialize, ToSchema)]
struct SchemaFields {
    /// The name. If a schema has it, without regard to case, the request adds a version to that schema.
    name: String,
    /// `{"type": "json_schema", "json_schema": {"name", "schema", "strict"}}` with a JSON Schema of draft 7.
    #[schema(value_type = Object)]
    response_format: Value,
}

/// The changes of a schema.
#[derive(Debug, Deserialize, ToSchema)]
struct SchemaChanges {
    /// The new name. A name alone adds no version.
    name: Option<String>,
    /// The new format, which adds a version if it differs.
    #[schema(value_type = Option<Object>)]
    response_format: Option<Value>,
}

/// A version of a schema.
#[derive(Debug, Serialize, ToSchema)]
struct SchemaBody {
    /// Identifies the version.
    schema_revid: String,
    /// Identifies the schema.
    schema_id: String,
    /// The number of the version, from 1.
    schema_version: u32,
    /// The current name of the schema.
    name: String,
    /// The response format as it was stored.
    #[schema(value_type = Object)]
    response_format: Value,
    /// The time of creation of the version.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The user that created the version.
    created_by: String,
}

/// A page of schemas, or the versions of one.
#[derive(Debug, Serialize, ToSchema)]
struct SchemaList {
    /// The newest version of each schema of the page, or the newest 100 versions of one schema.
    schemas: Vec<SchemaBody>,
    /// Number of schemas that match, exact up to 10,000, or number of versions.
    total_count: u64,
    /// Number of schemas before the page.
    skip: u32,
}

/// Data that is checked against a schema.
#[derive(Debug, Deserialize, ToSchema)]
struct SchemaData {
    /// The data.
    #[schema(value_type = Object)]
    data: Option<Value>,
}

/// The result of the check.
#[derive(Debug, Serialize, ToSchema)]
struct ValidationResult {
    /// True if the data matches the schema.
    valid: bool,
    /// The violations. Absent: the data is valid.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<ValidationError>,
}

/// A violation of the schema.
#[derive(Debug, Serialize, ToSchema)]
struct ValidationError {
    /// The position, such as `items.0.total`. Empty: the whole data.
    path: String,
    /// The problem.
    message: String,
}

impl From<&SchemaRevision> for SchemaBody {
    fn from(revision: &SchemaRevision) -> Self {
        Self {
            schema_revid: revision.revid.to_string(),
            schema_id: revision.revid.of.to_string(),
            schema_version: revision.revid.version,
            name: revision.name.clone(),
            response_format: revision.response_format.clone(),
            created_at: revision.created_at,
            created_by: revision.created_by.to_string(),
        }
    }
}

impl From<&Schema> for Versioned<SchemaBody> {
    fn from(schema: &Schema) -> Self {
        Self { version: schema.version, body: (&schema.latest).into() }
    }
}

impl From<Violation> for ValidationError {
    fn from(Violation { path, message }: Violation) -> Self {
        Self { path: dotted(&path), message }
    }
}

/// Returns a JSON pointer such as `#/items/0/total` as names with dots.
fn dotted(pointer: &str) -> String {
    let names = pointer.trim_start_matches('#').split('/').skip(1);
    names.map(|name| name.replace("~1", "/").replace("~0", "~")).collect::<Vec<_>>().join(".")
}

async fn create(client: Client, Json(fields): Json<SchemaFields>) -> Reply<Versioned<SchemaBody>> {
    let SchemaFields { name, response_format } = fields;
    let create = CreateSchema { name, response_format, allow_non_strict: true };
    Ok((&client.run(create).await?).into())
}

async fn list(client: Client, Query(query): Query<ListQuery>) -> Reply<Json<SchemaList>> {
    let page = query.page(FIELDS, "", |list| client.run(ListSchemas { list })).await?;
    let schemas = page.rows.iter().map(|listed| (&listed.resource.latest).into()).collect();
    Ok(Json(SchemaList { schemas, total_count: page.total_count, skip: page.skip }))
}

async fn find(client: Client, Id(schema_revid): Id<SchemaRevId>) -> Reply<Json<SchemaBody>> {
    let revision = client.run(GetSchemaRevision { schema_revid: SchemaRef::Revision(schema_revid) }).await?;
    Ok(Json((&revision).into()))
}

async fn update(
    client: Client,
    Id(schema_id): Id<SchemaId>,
    Json(changes): Json<SchemaChanges>,
) -> Reply<Versioned<SchemaBody>> {
    let SchemaChanges { name, response_format } = changes;
    if name.is_none() && response_format.is_none() {
        let detail = "At least one field (name or response_format) must be provided";
        return Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, detail));
    }
    let etag = client.etag;
    let update = UpdateSchema { schema_id, name, response_format, allow_non_strict: true, review_rule: None, etag };
    Ok((&client.run(update).await.map_err(missing)?.resource).into())
}

async fn remove(client: Client, Id(schema_id): Id<SchemaId>) -> Reply<Json<Message>> {
    let etag = client.etag;
    if let Err(failure) = client.run(DeleteSchema { schema_id, etag }).await {
        return Err(in_use(&client, missing(failure)).await);
    }
    Ok(Message::new("Schema deleted successfully"))
}

async fn validate(
    client: Client,
    Id(schema_revid): Id<SchemaRevId>,
    Json(SchemaData { data }): Json<SchemaData>,
) -> Reply<Json<ValidationResult>> {
    let data = data.ok_or_else(|| Failure::bad_request("Request must include 'data' field"))?;
    let violations = client.run(ValidateData { schema_revid: SchemaRef::Revision(schema_revid), data }).await?;
    let errors: Vec<ValidationError> = violations.into_iter().map(Into::into).collect();
    Ok(Json(ValidationResult { valid: errors.is_empty(), errors }))
}

async fn list_versions(client: Client, Id(schema_id): Id<SchemaId>) -> Reply<Json<SchemaList>> {
    let read = |list| client.run(ListSchemaRevisions { schema_id: schema_id.clone(), list });
    let RowPage { rows, total_count, skip } = versions(read).await.map_err(missing)?;
    Ok(Json(SchemaList { schemas: rows.iter().map(Into::into).collect(), total_count, skip }))
}

fn missing(failure: Failure) -> Failure {
    failure.when(Reason::NotFound, StatusCode::NOT_FOUND, "Schema not found or not in this organization")
}

/// Names the prompts that refer to a schema which therefore is not deleted.
async fn in_use(client: &Client, failure: Failure) -> Failure {
    let mut prompts = Vec::new();
    for id in failure.error_detail("users").unwrap_or_default().split(',') {
        let Ok(prompt_revid) = id.parse::<PromptRef>() else { continue };
        // A prompt that was deleted meanwhile is left out.
        if let Ok(prompt) = client.run(GetPromptRevision { prompt_revid }).await {
            let version = prompt.schema.map(|schema| schema.version);
            prompts.push(json!({ "name": prompt.name, "schema_version": version }));
        }
    }
    let detail = format!("Cannot delete schema because it has dependent prompts:{}", Value::Array(prompts));
    failure.when(Reason::InUse, StatusCode::BAD_REQUEST, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_written_with_dots() {
        for (pointer, path) in [("#", ""), ("#/items/0/total", "items.0.total"), ("#/a~1b/c~0d", "a/b.c~d")] {
            assert_eq!(dotted(pointer), path);
        }
    }
}
