//! Serves `IngestionService`.

use folio_knowledge::{DocumentIngestion, IngestionState};
use folio_operations::ingestions::{FoundIngestion, GetIngestion, StartIngestion};
use folio_proto::{fields, time, v1};
use folio_resources::TextId;
use folio_storage::value::PassageHead;
use folio_storage::{StoredSummary, SummaryScope};
use folio_types::budget::check_credit_budget;
use folio_types::limits;
use v1::ingestion_service_server::IngestionService;

use super::handler::{change, get};
use super::{Api, job};

#[tonic::async_trait]
impl IngestionService for Api {
    change!(start_ingestion, StartIngestionRequest, StartIngestionResponse { job: job::to_proto }, |request| {
        StartIngestion {
            document_ids: fields::ids("document_ids", &request.document_ids, limits::JOB_DOCUMENT_IDS_MAX)?,
            document_filter: request.document_filter,
            mode: fields::choice::<v1::IngestionMode>("mode", request.mode)?.specified(),
            credit_budget: check_credit_budget(request.credit_budget)?,
        }
    });

    get!(
        get_ingestion,
        GetIngestionRequest,
        GetIngestion { document_id },
        GetIngestionResponse { ingestion: to_proto }
    );
}

fn to_proto(found: &FoundIngestion) -> v1::Ingestion {
    let DocumentIngestion { state, passages, is_current, job, omissions } = &found.ingestion;
    let (mut error, mut skipped_reason) = (None, String::new());
    let state = match state {
        IngestionState::None => v1::IngestionState::Unspecified,
        IngestionState::Pending => v1::IngestionState::Pending,
        IngestionState::Running => v1::IngestionState::Running,
        IngestionState::Indexed => v1::IngestionState::Indexed,
        IngestionState::Failed(found) => {
            error = Some(found.into());
            v1::IngestionState::Failed
        }
        IngestionState::Skipped(reason) => {
            skipped_reason.clone_from(reason);
            v1::IngestionState::Skipped
        }
    };
    v1::Ingestion {
        document_id: found.document.to_string(),
        state: state.into(),
        error,
        skipped_reason,
        job_id: job.as_ref().map(ToString::to_string).unwrap_or_default(),
        passages: passages.as_ref().map(|head| passages_to_proto(head, *is_current)),
        summaries: found.text.iter().flat_map(|text| summaries_to_proto(text, &found.summaries)).collect(),
        omissions: omissions.clone(),
    }
}

fn summaries_to_proto<'f>(
    text: &'f TextId,
    summaries: &'f [StoredSummary],
) -> impl Iterator<Item = v1::DocumentSummary> + 'f {
    let id = move |number: u32| text.section(number).to_string();
    summaries.iter().map(move |summary| v1::DocumentSummary {
        section_id: summary.section.map(id).unwrap_or_default(),
        scope: match summary.scope {
            SummaryScope::Section => v1::SummaryScope::Section,
            SummaryScope::Chapter => v1::SummaryScope::Chapter,
            SummaryScope::Document => v1::SummaryScope::Document,
        }
        .into(),
        text: summary.text.clone(),
        source_section_ids: summary.sources.iter().copied().map(id).collect(),
        model: summary.model.clone(),
        by_agent: summary.input.is_none(),
        create_time: Some(time::to_proto(summary.created_at)),
    })
}

fn passages_to_proto(head: &PassageHead, current: bool) -> v1::DocumentPassages {
    v1::DocumentPassages {
        count: head.passages,
        generation: head.generation.to_string(),
        vector_space: head.space.clone().unwrap_or_default(),
        current,
        create_time: Some(time::to_proto(head.created_at)),
    }
}
