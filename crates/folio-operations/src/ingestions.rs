//! Operations on the ingestion of documents.

use folio_history::job::{INGESTION_KIND, IngestionInput};
use folio_jobs::JobRequest;
use folio_knowledge::{DocumentIngestion, ingestion_of};
use folio_resources::{Document, Organization, TextId};
use folio_storage::StoredSummary;
use folio_types::access::Scope;
use folio_types::{DocumentId, Error, IngestionMode, JobId, OrgId, Result};
use serde::Serialize;
use serde_json::json;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Declaration, Quota, service};
use crate::document_selection::Selector;
use crate::jobs::JobView;
use crate::operation::{Operation, outcome_as_job_id};

service! {
    "IngestionService", Some(Scope::Documents) => StartIngestion, GetIngestion
}

/// Creates a job that ingests documents, which are its items. A repeated request returns the same job.
#[derive(Debug, Clone, Serialize)]
pub struct StartIngestion {
    /// The documents, whose texts must be ready. Empty: `document_filter` selects them.
    pub document_ids: Vec<DocumentId>,
    /// A filter of documents as in [`crate::documents::ListDocuments`]. It selects the documents whose texts are ready now, and is
    /// refused if they exceed the items of a job (`JOB_ITEMS_MAX`). Empty: all documents. None: `document_ids` selects them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document_filter: Option<String>,
    /// None: the mode of the organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<IngestionMode>,
    /// Credits that the model calls of the job may cost. None: no budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
}

impl Operation for StartIngestion {
    const DECLARATION: Declaration = SERVICE.change("StartIngestion").long().quota(Quota::ModelCalls).recorded();
    type Output = JobView;

    outcome_as_job_id!(JobView::find);

    /// Records the number of the ids, which may be many, and the presence of a filter, which may contain names and metadata.
    async fn audit(&self, _context: &Context) -> Result<AuditRecord<JobView>> {
        let arguments = json!({
            "documents": self.document_ids.len(), "has_filter": self.document_filter.is_some(), "mode": self.mode,
            "credit_budget": self.credit_budget,
        });
        Ok(AuditRecord::new(arguments).target_of(JobView::audit_target))
    }

    async fn run(self, context: &Context) -> Result<JobView> {
        let documents = Selector::new(&self.document_ids, self.document_filter.as_deref())?;
        let mode = requested_mode(context, self.mode).await?;
        let selected = documents.read(context).await?;
        if selected.is_empty() {
            return Err(Error::invalid_field("document_filter", "no document with a text matches"));
        }
        let documents: Vec<DocumentId> = selected.into_iter().map(|document| document.id).collect();
        let (org, id) = (&context.principal().org, JobId::derive(&context.request.id_parts()));
        // The documents record the job before it is created, because it may end before this request ends.
        context.stores().passages().set_last_ingestion(org, &id, &documents).await?;
        let request = JobRequest {
            id,
            principal: context.principal().clone(),
            kind: INGESTION_KIND.to_owned(),
            input: json!(IngestionInput { mode, cause: None, credit_budget: self.credit_budget }),
            items: documents.iter().map(ToString::to_string).collect(),
        };
        JobView::read(context, context.job_creator()?.create(request).await?).await
    }
}

/// Returns the mode of a job: the requested one, else that of the organization. If the mode of the organization is off, the job has
/// the default mode.
///
/// # Errors
/// `INVALID_FIELD` if the requested mode ingests nothing.
async fn requested_mode(context: &Context, requested: Option<IngestionMode>) -> Result<IngestionMode> {
    if let Some(mode) = requested {
        let problem = "is off, which ingests no document; expected index, fast or agentic";
        return if mode == IngestionMode::Off { Err(Error::invalid_field("mode", problem)) } else { Ok(mode) };
    }
    let organization = context.stores().of::<Organization>().get(&OrgId::platform(), &context.principal().org).await?;
    let mode = organization.map(|organization| organization.ingestion);
    Ok(mode.filter(|mode| *mode != IngestionMode::Off).unwrap_or_default())
}

/// The state of the ingestion of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundIngestion {
    pub document: DocumentId,
    pub ingestion: DocumentIngestion,
    /// The current text. None: the document has no text.
    pub text: Option<TextId>,
    /// The summaries of the current text: first that of the document, then those of sections in their order.
    pub summaries: Vec<StoredSummary>,
}

/// Returns the state of the ingestion of a document.
#[derive(Debug, Clone, Serialize)]
pub struct GetIngestion {
    pub document_id: DocumentId,
}

impl Operation for GetIngestion {
    const DECLARATION: Declaration = SERVICE.read("GetIngestion");
    type Output = FoundIngestion;

    async fn run(self, context: &Context) -> Result<FoundIngestion> {
        let document: Document = context.find(&self.document_id).await?;
        let ingestion = ingestion_of(context.stores(), &document).await?;
        let mut summaries = context.stores().summaries().list(&document.org, &document.id).await?;
        summaries.retain(|summary| document.text_generation == Some(summary.text_generation));
        Ok(FoundIngestion { text: TextId::of(&document), document: document.id, ingestion, summaries })
    }
}
