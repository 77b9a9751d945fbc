//! Serves `SchemaService`.

use folio_llm::schema::Violation;
use folio_operations::proposals::Listed;
use folio_operations::schemas::{
    CreateSchema, DeleteSchema, GetSchemaRevision, ListSchemaRevisions, ListSchemas, UpdateResult, UpdateSchema,
    ValidateData, ValidateSchema,
};
use folio_proto::{fields, json, v1};
use folio_resources::Schema;
use folio_types::{Result as FolioResult, limits};
use serde_json::Value;
use v1::schema_service_server::SchemaService;

use super::Api;
use super::handler::{change, delete, get, grid_list, list, read};

#[tonic::async_trait]
impl SchemaService for Api {
    change!(create_schema, CreateSchemaRequest, CreateSchemaResponse { schema }, |request| {
        let schema = fields::required("schema", request.schema)?;
        CreateSchema {
            name: schema.name,
            response_format: format("schema.response_format_json", &schema.response_format_json)?,
            allow_non_strict: request.allow_non_strict,
        }
    });

    get!(
        get_schema_revision,
        GetSchemaRevisionRequest,
        GetSchemaRevision { schema_revid },
        GetSchemaRevisionResponse { schema_revision }
    );

    grid_list!(list_schemas, ListSchemasRequest, ListSchemas, ListSchemasResponse { schemas: listed });

    list!(
        list_schema_revisions,
        ListSchemaRevisionsRequest,
        ListSchemaRevisions { schema_id },
        ListSchemaRevisionsResponse { schema_revisions }
    );

    change!(
        update_schema,
        UpdateSchemaRequest,
        UpdateSchemaResponse,
        |request| {
            let schema = fields::required("schema", request.schema)?;
            let schema_id = fields::id("schema.schema_id", &schema.schema_id)?;
            let set = [
                ("name", !schema.name.is_empty()),
                ("response_format_json", !schema.response_format_json.is_empty()),
                ("review_rule", schema.review_rule.is_some()),
            ];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            let json = mask.take("response_format_json", schema.response_format_json);
            UpdateSchema {
                schema_id,
                etag: fields::etag("schema.etag", &schema.etag)?,
                name: mask.take("name", schema.name),
                response_format: json.map(|json| format("schema.response_format_json", &json)).transpose()?,
                allow_non_strict: request.allow_non_strict,
                review_rule: mask.take("review_rule", schema.review_rule.map(Into::into)),
            }
        },
        |updated: UpdateResult<Schema>| v1::UpdateSchemaResponse {
            schema: Some((&updated.resource).into()),
            revised: updated.revised,
        }
    );

    delete!(delete_schema, DeleteSchemaRequest, DeleteSchema { schema_id }, DeleteSchemaResponse);

    read!(
        validate_schema,
        ValidateSchemaRequest,
        ValidateSchemaResponse,
        |request| {
            let response_format = format("response_format_json", &request.response_format_json)?;
            ValidateSchema { response_format, allow_non_strict: request.allow_non_strict }
        },
        |violations: Vec<_>| v1::ValidateSchemaResponse {
            valid: violations.is_empty(),
            violations: violations.into_iter().map(violation).collect(),
        }
    );

    read!(
        validate_data,
        ValidateDataRequest,
        ValidateDataResponse,
        |request| {
            let data = json::parse("data_json", &request.data_json, limits::EXTRACTION_BYTES)?;
            ValidateData { schema_revid: fields::id("schema_revid", &request.schema_revid)?, data }
        },
        |violations: Vec<_>| v1::ValidateDataResponse {
            valid: violations.is_empty(),
            violations: violations.into_iter().map(violation).collect(),
        }
    );
}

fn listed(listed: &Listed<Schema>) -> v1::Schema {
    let pending_proposal_id = fields::text_of(listed.pending_proposal.as_ref());
    v1::Schema { pending_proposal_id, ..(&listed.resource).into() }
}

fn format(field: &str, text: &str) -> FolioResult<Value> {
    json::parse(field, text, limits::SCHEMA_BYTES)
}

pub(super) fn violation(violation: Violation) -> v1::SchemaViolation {
    v1::SchemaViolation { path: violation.path, message: violation.message }
}
