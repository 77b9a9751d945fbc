//! The routes of ingestions. No client of DocRouter calls them.

use folio_knowledge::IngestionState;
use folio_operations::ingestions::{FoundIngestion, GetIngestion, StartIngestion};
use folio_resources::{TextId, fields};
use folio_storage::StoredSummary;
use folio_storage::value::PassageHead;
use folio_types::budget::check_credit_budget;
use folio_types::{DocumentId, IngestionMode, Timestamp, limits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::endpoint::{get, post};
use super::extract::{Client, Id, Json};
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<StartIngestion>(Level::Own, post(org_path!("/ingestions"), start)),
        route::<GetIngestion>(Level::Own, get(org_path!("/documents/{document_id}/ingestion"), find)),
    ]
}

/// The documents that a job ingests.
#[derive(Debug, Deserialize, ToSchema)]
struct IngestionFields {
    /// The documents, whose texts must be ready. Null: `document_filter` selects them.
    document_ids: Option<Vec<String>>,
    /// A filter as of the RPC `ListDocuments`; empty: all documents with a text. Null: `document_ids` names them.
    document_filter: Option<String>,
    /// `index`, `fast` or `agentic`. Null: the mode of the organization.
    #[schema(value_type = Option<String>)]
    mode: Option<IngestionMode>,
    /// Credits that the model calls may cost. Null: no budget.
    credit_budget: Option<u64>,
}

/// A started job of ingestions.
#[derive(Debug, Serialize, ToSchema)]
struct IngestionJob {
    /// Identifies the job.
    job_id: String,
    /// Number of documents.
    documents: usize,
}

/// The passages of a document.
#[derive(Debug, Serialize, ToSchema)]
struct IngestedPassages {
    /// Number of passages.
    count: u32,
    /// The space in which each passage has a vector. Null: the passages have no vectors.
    vector_space: Option<String>,
    /// True if the passages are those of the current text.
    current: bool,
    /// The time at which the passages were stored.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// The summary of a document, or of one of its sections.
#[derive(Debug, Serialize, ToSchema)]
struct IngestedSummary {
    /// The section. Null: the document.
    section_id: Option<String>,
    /// `section`, `chapter` or `document`.
    scope: &'static str,
    /// The summary, output of a model.
    text: String,
    /// The sections whose texts or summaries the summary is made of.
    source_section_ids: Vec<String>,
    /// The model that wrote the summary.
    model: String,
    /// The time at which the summary was stored.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
}

/// The state of the ingestion of a document.
#[derive(Debug, Serialize, ToSchema)]
struct IngestionBody {
    /// Identifies the document.
    document_id: String,
    /// `none`, `pending`, `running`, `indexed`, `failed` or `skipped`.
    state: &'static str,
    /// The reason of a failure, such as `CREDIT_EXHAUSTED`. Null: the ingestion has not failed.
    code: Option<&'static str>,
    /// The description of a failure, or the reason for which the document was skipped. Null: there is none.
    detail: Option<String>,
    /// The newest job. Null: there was none, or its record has expired.
    job_id: Option<String>,
    /// The live passages. Null: there are none.
    passages: Option<IngestedPassages>,
    /// The summaries of the current text: that of the document first.
    summaries: Vec<IngestedSummary>,
    /// A sentence about each kind of work that the newest ingestion left out, such as images without a description.
    omissions: Vec<String>,
}

impl IngestedPassages {
    fn new(head: &PassageHead, current: bool) -> Self {
        Self { count: head.passages, vector_space: head.space.clone(), current, created_at: head.created_at }
    }
}

impl IngestedSummary {
    fn new(text: &TextId, summary: &StoredSummary) -> Self {
        let id = |number: u32| text.section(number).to_string();
        Self {
            section_id: summary.section.map(id),
            scope: summary.scope.as_str(),
            text: summary.text.clone(),
            source_section_ids: summary.sources.iter().copied().map(id).collect(),
            model: summary.model.clone(),
            created_at: summary.created_at,
        }
    }
}

impl From<&FoundIngestion> for IngestionBody {
    fn from(found: &FoundIngestion) -> Self {
        let ingestion = &found.ingestion;
        let (state, code, detail) = match &ingestion.state {
            IngestionState::None => ("none", None, None),
            IngestionState::Pending => ("pending", None, None),
            IngestionState::Running => ("running", None, None),
            IngestionState::Indexed => ("indexed", None, None),
            IngestionState::Failed(error) => ("failed", Some(error.reason.as_str()), Some(error.message.clone())),
            IngestionState::Skipped(reason) => ("skipped", None, Some(reason.clone())),
        };
        let summary = |text| found.summaries.iter().map(move |summary| IngestedSummary::new(text, summary));
        Self {
            document_id: found.document.to_string(),
            state,
            code,
            detail,
            job_id: ingestion.job.as_ref().map(ToString::to_string),
            passages: ingestion.passages.as_ref().map(|head| IngestedPassages::new(head, ingestion.is_current)),
            summaries: found.text.iter().flat_map(summary).collect(),
            omissions: ingestion.omissions.clone(),
        }
    }
}

async fn start(client: Client, Json(fields): Json<IngestionFields>) -> Reply<Json<IngestionJob>> {
    let document_ids = fields.document_ids.unwrap_or_default();
    let operation = StartIngestion {
        document_ids: fields::ids("document_ids", &document_ids, limits::JOB_DOCUMENT_IDS_MAX)?,
        document_filter: fields.document_filter,
        mode: fields.mode,
        credit_budget: check_credit_budget(fields.credit_budget)?,
    };
    let job = client.run(operation).await?;
    let documents = job.header.progress().items;
    Ok(Json(IngestionJob { job_id: job.header.id.to_string(), documents }))
}

async fn find(client: Client, Id(document_id): Id<DocumentId>) -> Reply<Json<IngestionBody>> {
    Ok(Json((&client.run(GetIngestion { document_id }).await?).into()))
}
