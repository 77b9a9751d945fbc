//! Serves `ExtractionService`.

use folio_operations::agent_extractions::{AgentEvent, AgentEvents, AgentResult, CorrectExtraction, StartExtraction};
use folio_operations::documents::Content;
use folio_operations::exports::{DownloadExtractions, EXPORT_DOCUMENTS_MAX, EXPORT_JOBS_MAX, ExportFormat};
use folio_operations::extractions::{
    DeleteExtraction, ExtractionEstimate, ExtractionPage, ExtractionRun, GetExtraction, GetExtractionEstimate,
    ListExtractions, ListFieldHistory, ReplaceExtraction, RequestReview, ReviewExtractionField, RunExtraction,
    RunExtractions, UpdateExtractionField, VerifyExtraction,
};
use folio_operations::{Call, ListPage};
use folio_proto::{field_decision, fields, json, v1};
use folio_resources::{Extraction, FieldChange};
use folio_types::budget::check_credit_budget;
use folio_types::{Error, Result, limits};
use futures::TryStreamExt as _;
use tonic::Request;
use v1::extraction_service_server::ExtractionService;

use super::handler::{change, delete, get, read};
use super::{Api, ResponseStream, RpcResult, bounded_stream, job, list_request, period, total_size};

#[tonic::async_trait]
impl ExtractionService for Api {
    type CorrectExtractionStream = ResponseStream<v1::CorrectExtractionResponse>;
    type DownloadExtractionsStream = ResponseStream<v1::DownloadExtractionsResponse>;
    type StartExtractionStream = ResponseStream<v1::StartExtractionResponse>;

    change!(
        run_extraction,
        RunExtractionRequest,
        RunExtractionResponse,
        |request| RunExtraction {
            document_id: fields::id("document_id", &request.document_id)?,
            prompt_revid: fields::id("prompt_revid", &request.prompt_revid)?,
            model: fields::optional_word("model", &request.model)?,
            credit_budget: check_credit_budget(request.credit_budget)?,
            reuse: request.reuse,
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
            document_ids: fields::ids("document_ids", &request.document_ids, limits::JOB_DOCUMENT_IDS_MAX)?,
            document_filter: request.document_filter,
            prompt_revid: fields::id("prompt_revid", &request.prompt_revid)?,
            model: fields::optional_word("model", &request.model)?,
            credit_budget: check_credit_budget(request.credit_budget)?,
        }
    });

    async fn start_extraction(
        &self,
        request: Request<v1::StartExtractionRequest>,
    ) -> RpcResult<Self::StartExtractionStream> {
        let call = |request: v1::StartExtractionRequest| {
            let operation = StartExtraction {
                document_id: fields::id("document_id", &request.document_id)?,
                prompt_revid: fields::id("prompt_revid", &request.prompt_revid)?,
                model: fields::optional_word("model", &request.model)?,
                credit_budget: check_credit_budget(request.credit_budget)?,
            };
            Ok(Call::with_request_id(fields::request_id(&request.request_id)?, operation))
        };
        let wrap = |event| v1::StartExtractionResponse { event: Some(agent_event(event)) };
        self.call(request, call, |events| self.agent_events(events, wrap)).await
    }

    async fn correct_extraction(
        &self,
        request: Request<v1::CorrectExtractionRequest>,
    ) -> RpcResult<Self::CorrectExtractionStream> {
        let call = |request: v1::CorrectExtractionRequest| {
            let operation = CorrectExtraction {
                extraction_id: fields::id("extraction_id", &request.extraction_id)?,
                model: fields::optional_word("model", &request.model)?,
                credit_budget: check_credit_budget(request.credit_budget)?,
                text: request.text,
            };
            Ok(Call::with_request_id(fields::request_id(&request.request_id)?, operation))
        };
        let wrap = |event| v1::CorrectExtractionResponse { event: Some(agent_event(event)) };
        self.call(request, call, |events| self.agent_events(events, wrap)).await
    }

    read!(
        get_extraction_estimate,
        GetExtractionEstimateRequest,
        GetExtractionEstimateResponse,
        |request| GetExtractionEstimate {
            document_ids: fields::ids("document_ids", &request.document_ids, limits::JOB_DOCUMENT_IDS_MAX)?,
            prompt_revid: fields::id("prompt_revid", &request.prompt_revid)?,
            model: fields::optional_word("model", &request.model)?,
            document_filter: request.document_filter,
        },
        |estimate: ExtractionEstimate| v1::GetExtractionEstimateResponse {
            documents: estimate.documents,
            pages: estimate.pages,
            credits: estimate.credits,
            planned_documents: estimate.planned_documents,
        }
    );

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

    change!(
        review_extraction_field,
        ReviewExtractionFieldRequest,
        ReviewExtractionFieldResponse { extraction },
        |request| {
            let parse = |value: &String| json::parse("value_json", value, limits::EXTRACTION_BYTES);
            ReviewExtractionField {
                extraction_id: fields::id("extraction_id", &request.extraction_id)?,
                decision: field_decision("decision", request.decision)?,
                value: request.value_json.as_ref().map(parse).transpose()?,
                etag: fields::etag("etag", &request.etag)?,
                path: request.path,
            }
        }
    );

    read!(
        list_field_history,
        ListFieldHistoryRequest,
        ListFieldHistoryResponse,
        |request| ListFieldHistory {
            extraction_id: fields::id("extraction_id", &request.extraction_id)?,
            list: list_request!(request),
            path: request.path,
        },
        |page: ListPage<FieldChange>| v1::ListFieldHistoryResponse {
            changes: page.items.iter().map(Into::into).collect(),
            next_page_token: page.next_page_token,
            total_size: total_size(page.total_size),
        }
    );

    change!(request_review, RequestReviewRequest, RequestReviewResponse { extraction }, |request| {
        let extraction_id = fields::id("extraction_id", &request.extraction_id)?;
        let etag = fields::etag("etag", &request.etag)?;
        RequestReview { extraction_id, requested: request.requested, etag }
    });

    change!(verify_extraction, VerifyExtractionRequest, VerifyExtractionResponse { extraction }, |request| {
        let extraction_id = fields::id("extraction_id", &request.extraction_id)?;
        let etag = fields::etag("etag", &request.etag)?;
        VerifyExtraction { extraction_id, verified: request.verified, etag }
    });

    delete!(delete_extraction, DeleteExtractionRequest, DeleteExtraction { extraction_id }, DeleteExtractionResponse);

    async fn download_extractions(
        &self,
        request: Request<v1::DownloadExtractionsRequest>,
    ) -> RpcResult<Self::DownloadExtractionsStream> {
        let call = |request: v1::DownloadExtractionsRequest| {
            Ok(Call::new(DownloadExtractions {
                document_ids: fields::ids("document_ids", &request.document_ids, EXPORT_DOCUMENTS_MAX)?,
                job_ids: fields::ids("job_ids", &request.job_ids, EXPORT_JOBS_MAX)?,
                period: period!(request),
                filter: request.filter,
                format: export_format(request.format)?,
                has_citations: request.include_citations,
            }))
        };
        let response = |content: Content| {
            let chunks = content.into_stream().map_ok(|chunk| v1::DownloadExtractionsResponse { chunk: chunk.into() });
            self.transfer(chunks)
        };
        self.call(request, call, response).await
    }

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

impl Api {
    /// Bounds a stream of events of a run. The end of the stream does not end the run.
    fn agent_events<T: Send + 'static>(
        &self,
        events: AgentEvents,
        wrap: impl Fn(AgentEvent) -> T + Send + 'static,
    ) -> ResponseStream<T> {
        bounded_stream(events.map_ok(wrap), self.event_limits(), self.drain_ended.clone())
    }
}

fn agent_event(event: AgentEvent) -> v1::AgentEvent {
    use v1::agent_event::Event;
    let event = match event {
        AgentEvent::Started { extraction, job } => {
            Event::Started(v1::AgentStarted { extraction_id: extraction.to_string(), job_id: job.to_string() })
        }
        AgentEvent::Text(text) => Event::Text(text),
        AgentEvent::Tool { name, arguments } => {
            Event::Tool(v1::AgentToolCall { name, arguments_json: json::text(&arguments) })
        }
        AgentEvent::Complete(result) => {
            let AgentResult { extraction, usage, credits } = *result;
            Event::Complete(v1::AgentComplete {
                extraction: Some((&extraction).into()),
                usage: Some(usage.into()),
                credits,
            })
        }
    };
    v1::AgentEvent { event: Some(event) }
}

fn export_format(format: i32) -> Result<ExportFormat> {
    match v1::ExportFormat::try_from(format) {
        Ok(v1::ExportFormat::Json) => Ok(ExportFormat::Json),
        Ok(v1::ExportFormat::Unspecified | v1::ExportFormat::JsonLines) => Ok(ExportFormat::JsonLines),
        Ok(v1::ExportFormat::Csv) => Ok(ExportFormat::Csv),
        Ok(v1::ExportFormat::Xlsx) => Ok(ExportFormat::Xlsx),
        Err(_) => Err(Error::invalid_field("format", "is unknown")),
    }
}

fn to_proto(extraction: &Extraction, has_data: bool) -> v1::Extraction {
    match has_data {
        true => extraction.into(),
        false => v1::Extraction { original_json: String::new(), edited_json: None, ..extraction.into() },
    }
}
