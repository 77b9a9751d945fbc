//! SchemaService.

use folio_llm::schema::Violation;
use folio_operations::schemas::{
    CreateSchema, DeleteSchema, GetSchemaRevision, ListSchemaRevisions, ListSchemas, Revised, UpdateSchema,
    ValidateData, ValidateSchema,
};
use folio_operations::{Call, ListPage};
use folio_proto::{fields, json, v1};
use folio_resources::{Schema, SchemaRevision};
use folio_types::{Result as FolioResult, limits};
use serde_json::Value;
use tonic::Request;
use v1::schema_service_server::SchemaService;

use super::{Api, Reply, list_request, total_size};

#[tonic::async_trait]
impl SchemaService for Api {
    async fn create_schema(&self, request: Request<v1::CreateSchemaRequest>) -> Reply<v1::CreateSchemaResponse> {
        let call = |request: v1::CreateSchemaRequest| {
            let schema = fields::required("schema", request.schema)?;
            let operation = CreateSchema {
                name: schema.name,
                response_format: format("schema.response_format_json", &schema.response_format_json)?,
                allow_non_strict: request.allow_non_strict,
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |created| v1::CreateSchemaResponse { schema: Some((&created).into()) }).await
    }

    async fn get_schema_revision(
        &self,
        request: Request<v1::GetSchemaRevisionRequest>,
    ) -> Reply<v1::GetSchemaRevisionResponse> {
        let call = |request: v1::GetSchemaRevisionRequest| {
            Ok(Call::new(GetSchemaRevision { schema_revid: fields::id("schema_revid", &request.schema_revid)? }))
        };
        self.call(request, call, |found| v1::GetSchemaRevisionResponse { schema_revision: Some((&found).into()) }).await
    }

    async fn list_schemas(&self, request: Request<v1::ListSchemasRequest>) -> Reply<v1::ListSchemasResponse> {
        let call = |request: v1::ListSchemasRequest| Ok(Call::new(ListSchemas { list: list_request!(request) }));
        let response = |page: ListPage<Schema>| v1::ListSchemasResponse {
            schemas: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }

    async fn list_schema_revisions(
        &self,
        request: Request<v1::ListSchemaRevisionsRequest>,
    ) -> Reply<v1::ListSchemaRevisionsResponse> {
        let call = |request: v1::ListSchemaRevisionsRequest| {
            Ok(Call::new(ListSchemaRevisions {
                schema_id: fields::id("schema_id", &request.schema_id)?,
                list: list_request!(request),
            }))
        };
        let response = |page: ListPage<SchemaRevision>| v1::ListSchemaRevisionsResponse {
            schema_revisions: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }

    async fn update_schema(&self, request: Request<v1::UpdateSchemaRequest>) -> Reply<v1::UpdateSchemaResponse> {
        let call = |request: v1::UpdateSchemaRequest| {
            let schema = fields::required("schema", request.schema)?;
            let schema_id = fields::id("schema.schema_id", &schema.schema_id)?;
            let set =
                [("name", !schema.name.is_empty()), ("response_format_json", !schema.response_format_json.is_empty())];
            let mask = fields::mask(request.update_mask.as_ref(), &set)?;
            let json = mask.take("response_format_json", schema.response_format_json);
            let operation = UpdateSchema {
                schema_id,
                etag: fields::etag("schema.etag", &schema.etag)?,
                name: mask.take("name", schema.name),
                response_format: json.map(|json| format("schema.response_format_json", &json)).transpose()?,
                allow_non_strict: request.allow_non_strict,
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |updated: Revised<Schema>| v1::UpdateSchemaResponse {
            schema: Some((&updated.resource).into()),
            revised: updated.revised,
        };
        self.call(request, call, response).await
    }

    async fn delete_schema(&self, request: Request<v1::DeleteSchemaRequest>) -> Reply<v1::DeleteSchemaResponse> {
        let call = |request: v1::DeleteSchemaRequest| {
            let schema_id = fields::id("schema_id", &request.schema_id)?;
            let etag = fields::etag("etag", &request.etag)?;
            Ok(Call::under(fields::request_id(&request.request_id)?, DeleteSchema { schema_id, etag }))
        };
        self.call(request, call, |()| v1::DeleteSchemaResponse {}).await
    }

    async fn validate_schema(&self, request: Request<v1::ValidateSchemaRequest>) -> Reply<v1::ValidateSchemaResponse> {
        let call = |request: v1::ValidateSchemaRequest| {
            let response_format = format("response_format_json", &request.response_format_json)?;
            Ok(Call::new(ValidateSchema { response_format, allow_non_strict: request.allow_non_strict }))
        };
        let response = |violations: Vec<_>| v1::ValidateSchemaResponse {
            valid: violations.is_empty(),
            violations: violations.into_iter().map(violation).collect(),
        };
        self.call(request, call, response).await
    }

    async fn validate_data(&self, request: Request<v1::ValidateDataRequest>) -> Reply<v1::ValidateDataResponse> {
        let call = |request: v1::ValidateDataRequest| {
            let data = json::parse("data_json", &request.data_json, limits::EXTRACTION_BYTES)?;
            Ok(Call::new(ValidateData { schema_revid: fields::id("schema_revid", &request.schema_revid)?, data }))
        };
        let response = |violations: Vec<_>| v1::ValidateDataResponse {
            valid: violations.is_empty(),
            violations: violations.into_iter().map(violation).collect(),
        };
        self.call(request, call, response).await
    }
}

fn format(field: &str, text: &str) -> FolioResult<Value> {
    json::parse(field, text, limits::SCHEMA_BYTES)
}

pub(super) fn violation(violation: Violation) -> v1::SchemaViolation {
    v1::SchemaViolation { path: violation.path, message: violation.message }
}
