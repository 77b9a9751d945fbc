//! ExtractionService.

use folio_operations::extractions::{
    DeleteExtraction, GetExtraction, ListExtractions, ReplaceExtraction, RunExtraction, UpdateExtractionField,
    VerifyExtraction,
};
use folio_operations::{Call, ListPage};
use folio_proto::{fields, json, v1};
use folio_resources::Extraction;
use folio_types::limits;
use tonic::Request;
use v1::extraction_service_server::ExtractionService;

use super::{Api, Reply, list_request, total_size};

#[tonic::async_trait]
impl ExtractionService for Api {
    async fn run_extraction(&self, request: Request<v1::RunExtractionRequest>) -> Reply<v1::RunExtractionResponse> {
        let call = |request: v1::RunExtractionRequest| {
            let operation = RunExtraction {
                document_id: fields::id("document_id", &request.document_id)?,
                prompt_revid: fields::id("prompt_revid", &request.prompt_revid)?,
                model: fields::optional_word("model", &request.model)?,
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |created| v1::RunExtractionResponse { extraction: Some((&created).into()) }).await
    }

    async fn get_extraction(&self, request: Request<v1::GetExtractionRequest>) -> Reply<v1::GetExtractionResponse> {
        let call = |request: v1::GetExtractionRequest| {
            Ok(Call::new(GetExtraction { extraction_id: fields::id("extraction_id", &request.extraction_id)? }))
        };
        self.call(request, call, |found| v1::GetExtractionResponse { extraction: Some((&found).into()) }).await
    }

    async fn update_extraction_field(
        &self,
        request: Request<v1::UpdateExtractionFieldRequest>,
    ) -> Reply<v1::UpdateExtractionFieldResponse> {
        let call = |request: v1::UpdateExtractionFieldRequest| {
            let extraction_id = fields::id("extraction_id", &request.extraction_id)?;
            let etag = fields::etag("etag", &request.etag)?;
            let value = json::parse("value_json", &request.value_json, limits::EXTRACTION_BYTES)?;
            let operation = UpdateExtractionField { extraction_id, path: request.path, value, etag };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |changed| v1::UpdateExtractionFieldResponse { extraction: Some((&changed).into()) })
            .await
    }

    async fn replace_extraction(
        &self,
        request: Request<v1::ReplaceExtractionRequest>,
    ) -> Reply<v1::ReplaceExtractionResponse> {
        let call = |request: v1::ReplaceExtractionRequest| {
            let extraction_id = fields::id("extraction_id", &request.extraction_id)?;
            let etag = fields::etag("etag", &request.etag)?;
            let data = json::parse("data_json", &request.data_json, limits::EXTRACTION_BYTES)?;
            let operation = ReplaceExtraction { extraction_id, data, etag };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |changed| v1::ReplaceExtractionResponse { extraction: Some((&changed).into()) }).await
    }

    async fn verify_extraction(
        &self,
        request: Request<v1::VerifyExtractionRequest>,
    ) -> Reply<v1::VerifyExtractionResponse> {
        let call = |request: v1::VerifyExtractionRequest| {
            let extraction_id = fields::id("extraction_id", &request.extraction_id)?;
            let etag = fields::etag("etag", &request.etag)?;
            let operation = VerifyExtraction { extraction_id, verified: request.verified, etag };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        self.call(request, call, |changed| v1::VerifyExtractionResponse { extraction: Some((&changed).into()) }).await
    }

    async fn delete_extraction(
        &self,
        request: Request<v1::DeleteExtractionRequest>,
    ) -> Reply<v1::DeleteExtractionResponse> {
        let call = |request: v1::DeleteExtractionRequest| {
            let extraction_id = fields::id("extraction_id", &request.extraction_id)?;
            let etag = fields::etag("etag", &request.etag)?;
            Ok(Call::under(fields::request_id(&request.request_id)?, DeleteExtraction { extraction_id, etag }))
        };
        self.call(request, call, |()| v1::DeleteExtractionResponse {}).await
    }

    async fn list_extractions(
        &self,
        request: Request<v1::ListExtractionsRequest>,
    ) -> Reply<v1::ListExtractionsResponse> {
        let call = |request: v1::ListExtractionsRequest| {
            Ok(Call::new(ListExtractions {
                document_id: fields::id("document_id", &request.document_id)?,
                list: list_request!(request),
            }))
        };
        let response = |page: ListPage<Extraction>| v1::ListExtractionsResponse {
            extractions: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        };
        self.call(request, call, response).await
    }
}
