//! ExtractionService.

use folio_proto::{fields, json, v1};
use folio_storage::ExtractionChange;
use folio_tools::{ToolResources, extraction};
use folio_types::document::Document;
use folio_types::extraction::Extraction;
use folio_types::op::{Expected, Target};
use folio_types::{DocumentId, ExtractionId, Principal, Result, limits};
use tonic::{Request, Response, Status};
use v1::extraction_service_server::ExtractionService;

use super::{Api, LARGE_PAGE_MAX, answer, asked, listing, no_filter};
use crate::decide::Op;
use crate::page::By;

#[tonic::async_trait]
impl ExtractionService for Api {
    async fn run_extraction(
        &self,
        request: Request<v1::RunExtractionRequest>,
    ) -> Result<Response<v1::RunExtractionResponse>, Status> {
        answer(request, async |principal, request| {
            let extraction = Some(self.run_prompt(principal, request).await?);
            Ok(v1::RunExtractionResponse { extraction })
        })
        .await
    }

    async fn get_extraction(
        &self,
        request: Request<v1::GetExtractionRequest>,
    ) -> Result<Response<v1::GetExtractionResponse>, Status> {
        answer(request, async |principal, request| {
            let id = fields::id("extraction_id", &request.extraction_id)?;
            let found: Extraction = self.found(&principal, &id).await?;
            Ok(v1::GetExtractionResponse { extraction: Some((&found).into()) })
        })
        .await
    }

    async fn update_extraction_field(
        &self,
        request: Request<v1::UpdateExtractionFieldRequest>,
    ) -> Result<Response<v1::UpdateExtractionFieldResponse>, Status> {
        answer(request, async |principal, request| {
            let id = fields::id("extraction_id", &request.extraction_id)?;
            let op = self.op(&principal, "UpdateExtractionField", &request.request_id, &request)?;
            let value = json::parse("value_json", &request.value_json, limits::EXTRACTION_BYTES)?;
            let path = fields::text("path", &request.path, folio_tools::path::PATH_BYTES)?;
            let stores = &self.gateway.stores;
            let edit = async |found: Extraction| {
                let data = extraction::edited(stores, &found, &path, value.clone()).await?;
                Ok(ExtractionChange::Edit { data })
            };
            let extraction = self.change_extraction(&op, &id, request.expected_version, edit).await?;
            Ok(v1::UpdateExtractionFieldResponse { extraction: Some(extraction) })
        })
        .await
    }

    async fn replace_extraction(
        &self,
        request: Request<v1::ReplaceExtractionRequest>,
    ) -> Result<Response<v1::ReplaceExtractionResponse>, Status> {
        answer(request, async |principal, request| {
            let id = fields::id("extraction_id", &request.extraction_id)?;
            let op = self.op(&principal, "ReplaceExtraction", &request.request_id, &request)?;
            let data = json::parse("data_json", &request.data_json, limits::EXTRACTION_BYTES)?;
            let stores = &self.gateway.stores;
            let replace = async |found: Extraction| {
                extraction::check_replacement(stores, &found, "data_json", &data).await?;
                Ok(ExtractionChange::Edit { data: data.clone() })
            };
            let extraction = self.change_extraction(&op, &id, request.expected_version, replace).await?;
            Ok(v1::ReplaceExtractionResponse { extraction: Some(extraction) })
        })
        .await
    }

    async fn verify_extraction(
        &self,
        request: Request<v1::VerifyExtractionRequest>,
    ) -> Result<Response<v1::VerifyExtractionResponse>, Status> {
        answer(request, async |principal, request| {
            let id = fields::id("extraction_id", &request.extraction_id)?;
            let op = self.op(&principal, "VerifyExtraction", &request.request_id, &request)?;
            let verify = async |_| Ok(ExtractionChange::Verify { verified: request.verified });
            let extraction = self.change_extraction(&op, &id, request.expected_version, verify).await?;
            Ok(v1::VerifyExtractionResponse { extraction: Some(extraction) })
        })
        .await
    }

    async fn delete_extraction(
        &self,
        request: Request<v1::DeleteExtractionRequest>,
    ) -> Result<Response<v1::DeleteExtractionResponse>, Status> {
        answer(request, async |principal, request| {
            let id = fields::id("extraction_id", &request.extraction_id)?;
            let op = self.op(&principal, "DeleteExtraction", &request.request_id, &request)?;
            op.delete::<Extraction>(&self.gateway.stores, &id, request.expected_version).await?;
            Ok(v1::DeleteExtractionResponse {})
        })
        .await
    }

    async fn list_extractions(
        &self,
        request: Request<v1::ListExtractionsRequest>,
    ) -> Result<Response<v1::ListExtractionsResponse>, Status> {
        answer(request, |principal, request| self.extractions(principal, request)).await
    }
}

impl Api {
    /// Runs a prompt on a document. A request that has run is answered from its op row, without a model call; so is one
    /// that runs, once it has.
    async fn run_prompt(&self, principal: Principal, request: v1::RunExtractionRequest) -> Result<v1::Extraction> {
        let op = self.op(&principal, "RunExtraction", &request.request_id, &request)?;
        let document: DocumentId = fields::id("document_id", &request.document_id)?;
        let model = fields::optional_word("model", &request.model)?;
        let id = ExtractionId::derive(&op.parts());
        let stores = &self.gateway.stores;
        let _alone = self.running.take(&id).await;
        if op.done(stores, &Target::Extraction(id.clone())).await?.is_none() {
            let prompt = self.prompt_revision(&principal, "prompt_revid", &request.prompt_revid).await?.revid;
            let run = extraction::Request {
                principal: principal.clone(),
                document,
                prompt,
                model,
                fallback_model: None,
                key: format!("request:{}:{}:{}", principal.user, op.request, self.gateway.environment.uuid().simple()),
            };
            let extracted = extraction::run(&self.resources(), run).await?;
            let change = ExtractionChange::Create(extracted.into_new());
            op.created(stores.extractions.decide(&id, op.write(Expected::Absent, change)).await?)?;
        }
        self.found::<Extraction>(&principal, &id).await.map(|extraction| (&extraction).into())
    }

    pub(super) fn resources(&self) -> ToolResources {
        let gateway = &self.gateway;
        ToolResources {
            stores: gateway.stores.clone(),
            models: std::sync::Arc::clone(&gateway.models),
            meter: std::sync::Arc::clone(&gateway.meter),
            environment: std::sync::Arc::clone(&gateway.environment),
            tasks: self.tasks.clone(),
        }
    }

    async fn change_extraction<F>(
        &self,
        op: &Op,
        id: &ExtractionId,
        version: u64,
        change: impl Fn(Extraction) -> F,
    ) -> Result<v1::Extraction>
    where
        F: Future<Output = Result<ExtractionChange>>,
    {
        op.change(&self.gateway.stores, id, version, change).await?;
        self.found::<Extraction>(&op.principal, id).await.map(|extraction| (&extraction).into())
    }

    async fn extractions(
        &self,
        principal: Principal,
        request: v1::ListExtractionsRequest,
    ) -> Result<v1::ListExtractionsResponse> {
        let document: DocumentId = fields::id("document_id", &request.document_id)?;
        no_filter(&request.filter)?;
        let scope = format!("extractions of {document}");
        let listing = listing(&principal, &scope, "", asked!(request), By::Created, LARGE_PAGE_MAX)?;
        self.found::<Document>(&principal, &document).await?;
        let extractions = &self.gateway.stores.extractions;
        let page = listing.fetch(async |page| extractions.list(&principal.org, &document, &page).await).await?;
        Ok(v1::ListExtractionsResponse {
            extractions: page.items,
            next_page_token: page.next_page_token,
            total_size: page.total_size,
        })
    }
}
