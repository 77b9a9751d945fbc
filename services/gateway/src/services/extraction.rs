//! Serves `ExtractionService`.

use folio_operations::extractions::{
    DeleteExtraction, ExtractionPage, ExtractionRun, GetExtraction, ListExtractions, ReplaceExtraction, RunExtraction,
    RunExtractions, UpdateExtractionField, VerifyExtraction,
};
use folio_proto::{fields, json, v1};
use folio_resources::Extraction;
use folio_types::limits;
use v1::extraction_service_server::ExtractionService;

use super::handler::{change, delete, get, read};
use super::{Api, job, list_request, period, total_size};

#[tonic::async_trait]
impl ExtractionService for Api {
    change!(
        run_extraction,
        RunExtractionRequest,
        RunExtractionResponse,
        |request| RunExtraction {
            document_id: fields::id("document_id", &request.document_id)?,
            prompt_revid: fields::id("prompt_revid", &request.prompt_revid)?,
            model: fields::optional_word("model", &request.model)?,
        },
        |run| match run {
            ExtractionRun::Extracted(extraction) => {
                v1::RunExtractionResponse { extraction: Some((&*extraction).into()), job: None }
            }
            ExtractionRun::Job(job) => {
                v1::RunExtractionResponse { extraction: None, job: Some(job::to_proto(&job)) }
            }
        }
    );

    change!(run_extractions, RunExtractionsRequest, RunExtractionsResponse { job: job::to_proto }, |request| {
        RunExtractions {
            document_ids: fields::ids("document_ids", &request.document_ids, limits::JOB_ITEMS_MAX)?,
            prompt_revid: fields::id("prompt_revid", &request.prompt_revid)?,
            model: fields::optional_word("model", &request.model)?,
        }
    });

    get!(get_extraction, GetExtractionRequest, GetExtraction { extraction_id }, GetExtractionResponse { extraction });

    change!(
        update_extraction_field,
        UpdateExtractionFieldRequest,
        UpdateExtractionFieldResponse { extraction },
        |request| {
            let extraction_id = fields::id("extraction_id", &request.extraction_id)?;
            let etag = fields::etag("etag", &request.etag)?;
            let value = json::parse("value_json", &request.value_json, limits::EXTRACTION_BYTES)?;
            UpdateExtractionField { extraction_id, path: request.path, value, etag }
        }
    );

    change!(replace_extraction, ReplaceExtractionRequest, ReplaceExtractionResponse { extraction }, |request| {
        let extraction_id = fields::id("extraction_id", &request.extraction_id)?;
        let etag = fields::etag("etag", &request.etag)?;
        let data = json::parse("data_json", &request.data_json, limits::EXTRACTION_BYTES)?;
        ReplaceExtraction { extraction_id, data, etag }
    });

    change!(verify_extraction, VerifyExtractionRequest, VerifyExtractionResponse { extraction }, |request| {
        let extraction_id = fields::id("extraction_id", &request.extraction_id)?;
        let etag = fields::etag("etag", &request.etag)?;
        VerifyExtraction { extraction_id, verified: request.verified, etag }
    });

    delete!(delete_extraction, DeleteExtractionRequest, DeleteExtraction { extraction_id }, DeleteExtractionResponse);

    read!(
        list_extractions,
        ListExtractionsRequest,
        ListExtractionsResponse,
        |request| ListExtractions {
            document_id: fields::optional_id("document_id", &request.document_id)?,
            period: period!(request),
            include_data: request.include_data.unwrap_or(true),
            list: list_request!(request),
        },
        |ExtractionPage { page, has_data }: ExtractionPage| v1::ListExtractionsResponse {
            extractions: page.items.iter().map(|extraction| to_proto(extraction, has_data)).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        }
    );
}

fn to_proto(extraction: &Extraction, has_data: bool) -> v1::Extraction {
    match has_data {
        true => extraction.into(),
        false => v1::Extraction { original_json: String::new(), edited_json: None, ..extraction.into() },
    }
}
