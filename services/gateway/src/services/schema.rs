//! SchemaService. The rules of schemas are those of the tools, unless a request allows schemas that are not strict.

use folio_llm::schema::{CheckedFormat, Rules, Violation, check_response_format};
use folio_proto::{fields, json, v1};
use folio_storage::{SchemaChange, SchemaFilter};
use folio_tools::rules;
use folio_types::schema::{Schema, SchemaRevision};
use folio_types::{Error, Principal, Result, SchemaId, SchemaRevId, limits};
use serde_json::Value;
use tonic::{Request, Response, Status};
use v1::schema_service_server::SchemaService;

use super::{Api, LARGE_PAGE_MAX, answer, asked, listing, no_filter};
use crate::filter;
use crate::page::By;

#[tonic::async_trait]
impl SchemaService for Api {
    async fn create_schema(
        &self,
        request: Request<v1::CreateSchemaRequest>,
    ) -> Result<Response<v1::CreateSchemaResponse>, Status> {
        answer(request, |principal, request| self.new_schema(principal, request)).await
    }

    async fn get_schema_revision(
        &self,
        request: Request<v1::GetSchemaRevisionRequest>,
    ) -> Result<Response<v1::GetSchemaRevisionResponse>, Status> {
        answer(request, async |principal, request| {
            let found = self.schema_revision(&principal, "schema_revid", &request.schema_revid).await?;
            Ok(v1::GetSchemaRevisionResponse { schema_revision: Some((&found).into()) })
        })
        .await
    }

    async fn list_schemas(
        &self,
        request: Request<v1::ListSchemasRequest>,
    ) -> Result<Response<v1::ListSchemasResponse>, Status> {
        answer(request, |principal, request| self.schemas(principal, request)).await
    }

    async fn list_schema_versions(
        &self,
        request: Request<v1::ListSchemaVersionsRequest>,
    ) -> Result<Response<v1::ListSchemaVersionsResponse>, Status> {
        answer(request, |principal, request| self.schema_versions(principal, request)).await
    }

    async fn update_schema(
        &self,
        request: Request<v1::UpdateSchemaRequest>,
    ) -> Result<Response<v1::UpdateSchemaResponse>, Status> {
        answer(request, |principal, request| self.changed_schema(principal, request)).await
    }

    async fn delete_schema(
        &self,
        request: Request<v1::DeleteSchemaRequest>,
    ) -> Result<Response<v1::DeleteSchemaResponse>, Status> {
        answer(request, async |principal, request| {
            let id = fields::id("schema_id", &request.schema_id)?;
            let op = self.op(&principal, "DeleteSchema", &request.request_id, &request)?;
            op.delete::<Schema>(&self.gateway.stores, &id, request.expected_version).await?;
            Ok(v1::DeleteSchemaResponse {})
        })
        .await
    }

    async fn validate_schema(
        &self,
        request: Request<v1::ValidateSchemaRequest>,
    ) -> Result<Response<v1::ValidateSchemaResponse>, Status> {
        answer(request, async |_, request| {
            let format = format_json(&request.response_format_json)?;
            let violations = match check_response_format(&format, rules_of(request.allow_non_strict)) {
                Ok(_) => Vec::new(),
                Err(violations) => violations,
            };
            Ok(v1::ValidateSchemaResponse { valid: violations.is_empty(), violations: shown(violations) })
        })
        .await
    }

    async fn validate_data(
        &self,
        request: Request<v1::ValidateDataRequest>,
    ) -> Result<Response<v1::ValidateDataResponse>, Status> {
        answer(request, async |principal, request| {
            let data = json::parse("data_json", &request.data_json, limits::EXTRACTION_BYTES)?;
            let violations = self.data_violations(&principal, "schema_revid", &request.schema_revid, &data).await?;
            Ok(v1::ValidateDataResponse { valid: violations.is_empty(), violations })
        })
        .await
    }
}

impl Api {
    /// What is wrong with data, held against the schema that `field` names.
    pub(super) async fn data_violations(
        &self,
        principal: &Principal,
        field: &str,
        schema_revid: &str,
        data: &Value,
    ) -> Result<Vec<v1::SchemaViolation>> {
        let schema = self.schema_revision(principal, field, schema_revid).await?;
        Ok(shown(rules::violations_of(field, &schema, data).await?))
    }

    /// The revision of a revid, or the newest one of a schema's id.
    pub(super) async fn schema_revision(
        &self,
        principal: &Principal,
        field: &str,
        text: &str,
    ) -> Result<SchemaRevision> {
        let schemas = &self.gateway.stores.schemas;
        if text.contains('.') {
            let revid: SchemaRevId = fields::id(field, text)?;
            let found = schemas.revision(&principal.org, &revid).await?;
            return found.ok_or_else(|| Error::not_found("schema revision", revid));
        }
        let id: SchemaId = fields::id(field, text)?;
        self.found::<Schema>(principal, &id).await.map(|schema| schema.latest)
    }

    async fn new_schema(
        &self,
        principal: Principal,
        request: v1::CreateSchemaRequest,
    ) -> Result<v1::CreateSchemaResponse> {
        let op = self.op(&principal, "CreateSchema", &request.request_id, &request)?;
        rules::check_name("name", &request.name)?;
        let format = checked_format(&request.response_format_json, request.allow_non_strict)?;
        let CheckedFormat { response_format, strict } = format;
        let (name, stores) = (request.name, &self.gateway.stores);
        let revise = SchemaChange::Update { name: None, response_format: Some((response_format.clone(), strict)) };
        let create = SchemaChange::Create { name: name.clone(), response_format, strict };
        let id = op.once::<Schema>(stores, op.create_or_revise::<Schema>(stores, &name, create, revise)).await?;
        Ok(v1::CreateSchemaResponse { schema: Some((&self.found::<Schema>(&principal, &id).await?).into()) })
    }

    async fn schemas(&self, principal: Principal, request: v1::ListSchemasRequest) -> Result<v1::ListSchemasResponse> {
        let mut filter = SchemaFilter::default();
        for term in filter::parse(&request.filter)? {
            match term.field.as_str() {
                "name" => filter::once(&mut filter.name_search, &term, term.search()?)?,
                _ => return Err(filter::unknown(&term, "name")),
            }
        }
        let by = By::Name("name");
        let listing = listing(&principal, "schemas", &request.filter, asked!(request), by, LARGE_PAGE_MAX)?;
        let schemas = &self.gateway.stores.schemas;
        let page = listing.fetch(async |page| schemas.list(&principal.org, &filter, &page).await).await?;
        Ok(v1::ListSchemasResponse {
            schemas: page.items,
            next_page_token: page.next_page_token,
            total_size: page.total_size,
        })
    }

    async fn schema_versions(
        &self,
        principal: Principal,
        request: v1::ListSchemaVersionsRequest,
    ) -> Result<v1::ListSchemaVersionsResponse> {
        let id: SchemaId = fields::id("schema_id", &request.schema_id)?;
        no_filter(&request.filter)?;
        let scope = format!("versions of {id}");
        let listing = listing(&principal, &scope, "", asked!(request), By::Created, LARGE_PAGE_MAX)?;
        let schemas = &self.gateway.stores.schemas;
        self.found::<Schema>(&principal, &id).await?;
        let page = listing.fetch(async |page| schemas.versions(&principal.org, &id, &page).await).await?;
        Ok(v1::ListSchemaVersionsResponse {
            schema_revisions: page.items,
            next_page_token: page.next_page_token,
            total_size: page.total_size,
        })
    }

    async fn changed_schema(
        &self,
        principal: Principal,
        request: v1::UpdateSchemaRequest,
    ) -> Result<v1::UpdateSchemaResponse> {
        let id = fields::id("schema_id", &request.schema_id)?;
        let op = self.op(&principal, "UpdateSchema", &request.request_id, &request)?;
        if let Some(name) = &request.name {
            rules::check_name("name", name)?;
        }
        let format = request.response_format_json.as_deref();
        let format = format.map(|text| checked_format(text, request.allow_non_strict)).transpose()?;
        let response_format = format.map(|format| (format.response_format, format.strict));
        let change = SchemaChange::Update { name: request.name, response_format };
        let change = async |_: Schema| Ok(change.clone());
        let revised = op.change(&self.gateway.stores, &id, request.expected_version, change).await?.revised();
        Ok(v1::UpdateSchemaResponse { schema: Some((&self.found::<Schema>(&principal, &id).await?).into()), revised })
    }
}

fn rules_of(allow_non_strict: bool) -> Rules {
    if allow_non_strict { Rules::AllowNonStrict } else { Rules::Strict }
}

fn format_json(text: &str) -> Result<Value> {
    json::parse("response_format_json", text, limits::SCHEMA_BYTES)
}

fn checked_format(text: &str, allow_non_strict: bool) -> Result<CheckedFormat> {
    rules::check_format("response_format_json", &format_json(text)?, rules_of(allow_non_strict))
}

fn shown(violations: Vec<Violation>) -> Vec<v1::SchemaViolation> {
    violations
        .into_iter()
        .map(|violation| v1::SchemaViolation { path: violation.path, message: violation.message })
        .collect()
}
