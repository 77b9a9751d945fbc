//! Operations on extractions.

mod estimate;

use folio_history::job;
use folio_jobs::JobRequest;
use folio_metering::BudgetScope;
use folio_resources::{
    CreationPeriod, Document, Extraction, ExtractionChange, ExtractionFilter, ExtractionState, FieldChange,
    FieldDecision, FieldLog, Prompt, PromptRevision, Resource as _, fields,
};
use folio_tools::extraction;
use folio_types::access::Scope;
use folio_types::op::Target;
use folio_types::page::{Order, Page, PageRequest};
use folio_types::{DocumentId, Error, Etag, ExtractionId, JobId, PromptRevId, Result, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use self::estimate::estimate;
pub use self::estimate::{ExtractionEstimate, GetExtractionEstimate};
use crate::agent_extractions::{self, CorrectExtraction, StartExtraction};
use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Declaration, Quota, service};
use crate::document_selection::Selector;
use crate::exports::DownloadExtractions;
use crate::jobs::JobView;
use crate::list::{LARGE_PAGE_MAX, ListPage, ListRequest, Listing, Period, SortKeys};
use crate::operation::{Operation, delete_operation, outcome_as_job_id};
use crate::reference::{PromptRef, SchemaRef};
use crate::{filter, reuse};

/// Number of the run with which an extraction by the agent begins.
const FIRST_RUN: u32 = 1;

service! {
    "ExtractionService", Some(Scope::Extractions) =>
    RunExtraction, RunExtractions, StartExtraction, CorrectExtraction, GetExtractionEstimate, GetExtraction,
    UpdateExtractionField, ReplaceExtraction, ReviewExtractionField,
    ListFieldHistory, RequestReview, VerifyExtraction, DeleteExtraction, ListExtractions, DownloadExtractions
}

/// Runs a prompt on a document and stores the data, or creates a job if the document needs more windows than a request may
/// extract, or if the agent runs the prompt. A repeated request returns the stored extraction without a model call, or the
/// same job. A request that is repeated while the first one runs waits for its result.
#[derive(Debug, Clone, Serialize)]
pub struct RunExtraction {
    /// The document, whose text must be ready.
    pub document_id: DocumentId,
    pub prompt_revid: PromptRef,
    /// None: the prompt's model, or the default model if the prompt names none.
    pub model: Option<String>,
    /// Credits that the model calls may cost. None: no budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
    /// True: if the document has a completed extraction with the revision of the prompt, or one in progress, it is the result. A
    /// run in progress in another process is found if it is a job.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reuse: bool,
}

/// The result of [`RunExtraction`].
#[derive(Debug, Clone, PartialEq)]
pub enum ExtractionRun {
    Extracted(Box<Extraction>),
    /// The job whose only item is the document, or the extraction on which the agent works.
    Job(Box<JobView>),
}

impl Operation for RunExtraction {
    const DECLARATION: Declaration = SERVICE.change("RunExtraction").long().quota(Quota::ModelCalls);
    type Output = ExtractionRun;

    async fn run(self, context: &Context) -> Result<ExtractionRun> {
        let (request, stores, principal) = (&context.request, context.stores(), context.principal());
        let id = ExtractionId::derive(&request.id_parts());
        let job = Target::new(job::KIND, JobId::derive(&request.id_parts()));
        let _guard = context.running_extractions().acquire(&id).await;
        let is_job = request.has_recorded(stores, &job).await?;
        if !is_job && request.recorded_result(stores, &Extraction::target(&id)).await?.is_some() {
            let found: Extraction = context.find(&id).await?;
            let is_in_first_run = found.agent.as_ref().is_some_and(|agent| agent.number == FIRST_RUN);
            if is_in_first_run && found.state() == ExtractionState::InProgress {
                let job = JobView::find(context, &JobId::derive(&request.id_parts())).await?;
                return Ok(ExtractionRun::Job(Box::new(job)));
            }
            let found = with_citations(context, found).await?;
            return Ok(ExtractionRun::Extracted(Box::new(found)));
        }
        let revision = context.revision::<Prompt>(&self.prompt_revid).await?;
        let may_reuse = self.reuse && !is_job;
        let _shared_run =
            if may_reuse { Some(reuse::join(context, &self.document_id, &revision.revid).await) } else { None };
        if may_reuse && let Some(found) = reuse::find(context, &self.document_id, &revision.revid).await? {
            return Ok(found);
        }
        if revision.is_run_by_agent && !is_job {
            let limits = (self.model.as_deref(), self.credit_budget);
            let job = agent_extractions::begin(context, &self.document_id, revision, limits).await?;
            return Ok(ExtractionRun::Job(Box::new(JobView::read(context, job).await?)));
        }
        let prompt = revision.revid;
        if !is_job {
            let unique = context.environment().uuid();
            let key = format!("request:{}:{}", principal.user, request.id());
            let run = extraction::Request {
                principal: principal.clone(),
                document: self.document_id.clone(),
                prompt: prompt.clone(),
                model: self.model.clone(),
                fallback_model: None,
                key: format!("{key}:{}", unique.simple()),
                run: request.is_repeatable().then_some(key),
                steps: None,
            };
            let resources = context.tool_resources()?;
            let resources = match self.credit_budget {
                // Another attempt of the request does not pay for answered windows, so each attempt has a budget of its own.
                Some(credits) => resources.paid_from(BudgetScope::of_request(credits)),
                None => resources,
            };
            let planned = extraction::plan(&resources, run).await?;
            if !planned.is_job() {
                let extracted = planned.run().await?;
                request.create::<Extraction>(stores, ExtractionChange::Create(Box::new(extracted.extraction))).await?;
                return context.find(&id).await.map(|found| ExtractionRun::Extracted(Box::new(found)));
            }
            // Recorded before the job is created, so that a repeated request cannot extract the document itself.
            request.record(stores, job).await?;
        }
        let job = create_job(context, prompt, (self.model, self.credit_budget), &[self.document_id]).await?;
        Ok(ExtractionRun::Job(Box::new(job)))
    }
}

/// Creates the job of a request, whose items are documents. Idempotent. `credit_budget`: None: no budget.
async fn create_job(
    context: &Context,
    prompt: PromptRevId,
    (model, credit_budget): (Option<String>, Option<u64>),
    documents: &[DocumentId],
) -> Result<JobView> {
    let input = extraction::JobInput { model, credit_budget, ..extraction::JobInput::new(prompt) };
    let request = JobRequest {
        id: JobId::derive(&context.request.id_parts()),
        principal: context.principal().clone(),
        kind: extraction::JOB_KIND.to_owned(),
        input: json!(input),
        items: documents.iter().map(ToString::to_string).collect(),
    };
    let job = context.job_creator()?.create(request).await?;
    JobView::read(context, job).await
}

/// Creates a job that runs a prompt on several documents and stores the data of each. The documents are the items of the
/// job. A repeated request returns the same job.
#[derive(Debug, Clone, Serialize)]
pub struct RunExtractions {
    /// The documents, whose texts must be ready. Empty: `document_filter` selects them.
    pub document_ids: Vec<DocumentId>,
    /// A filter of documents as in [`crate::documents::ListDocuments`]. It selects the documents whose texts are ready now, at most
    /// as many as a job may have items (`JOB_ITEMS_MAX`). Empty: all documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub document_filter: Option<String>,
    pub prompt_revid: PromptRef,
    /// None: the prompt's model, or the default model if the prompt names none.
    pub model: Option<String>,
    /// Credits that the model calls of the job may cost. None: no budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit_budget: Option<u64>,
}

impl Operation for RunExtractions {
    const DECLARATION: Declaration = SERVICE.change("RunExtractions").long().quota(Quota::ModelCalls).recorded();
    type Output = JobView;

    outcome_as_job_id!(JobView::find);

    /// Records the number of the ids, which may be many, and the presence of a filter, which may contain names and metadata.
    async fn audit(&self, _context: &Context) -> Result<AuditRecord<JobView>> {
        let arguments = json!({
            "documents": self.document_ids.len(), "has_filter": self.document_filter.is_some(),
            "prompt_revid": self.prompt_revid, "model": self.model, "credit_budget": self.credit_budget,
        });
        Ok(AuditRecord::new(arguments).target_of(JobView::audit_target))
    }

    async fn run(self, context: &Context) -> Result<JobView> {
        let documents = Selector::new(&self.document_ids, self.document_filter.as_deref())?;
        let prompt = runnable_prompt(context, &self.prompt_revid, self.model.as_deref()).await?;
        let selected = documents.read(context).await?;
        if selected.is_empty() {
            return Err(Error::invalid_field("document_filter", "no document with a text matches"));
        }
        let documents: Vec<DocumentId> = selected.into_iter().map(|document| document.id).collect();
        create_job(context, prompt.revid, (self.model, self.credit_budget), &documents).await
    }
}

/// Returns a revision of a prompt whose model is available.
async fn runnable_prompt(context: &Context, prompt: &PromptRef, model: Option<&str>) -> Result<PromptRevision> {
    let prompt = context.revision::<Prompt>(prompt).await?;
    let (models, preferred) = (context.catalogue().await?, prompt.model.as_deref());
    if prompt.is_run_by_agent {
        extraction::agent_model(&models, model, &[preferred])?;
    } else {
        models.for_prompts(model.or(preferred))?;
    }
    Ok(prompt)
}

/// Returns an extraction. If its document was read again, the citations are those of the current text.
#[derive(Debug, Clone, Serialize)]
pub struct GetExtraction {
    pub extraction_id: ExtractionId,
}

impl Operation for GetExtraction {
    const DECLARATION: Declaration = SERVICE.read("GetExtraction");
    type Output = Extraction;

    async fn run(self, context: &Context) -> Result<Extraction> {
        with_citations(context, context.find(&self.extraction_id).await?).await
    }
}

/// Returns the extraction with citations of the current text of its document. Cost: one read, and a search in the text if the
/// document was read again.
pub(crate) async fn with_citations(context: &Context, extraction: Extraction) -> Result<Extraction> {
    let stores = context.stores();
    match stores.of::<Document>().get(&context.principal().org, &extraction.document).await? {
        Some(document) => extraction::check_again(stores, &document, extraction).await,
        None => Ok(extraction),
    }
}

/// Changes one value of the data, and resets the verification.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateExtractionField {
    pub extraction_id: ExtractionId,
    /// The position, such as `a.b[0].c`.
    pub path: String,
    pub value: Value,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateExtractionField {
    const DECLARATION: Declaration = SERVICE.change("UpdateExtractionField");
    type Output = Extraction;

    async fn run(self, context: &Context) -> Result<Extraction> {
        let path = fields::text("path", &self.path, folio_tools::path::PATH_BYTES)?;
        let (stores, path, value) = (context.stores(), &path, &self.value);
        let edit = |found: Extraction| async move {
            let data = extraction::apply_edit(stores, &found, path, value.clone()).await?;
            Ok(ExtractionChange::Edit { data })
        };
        context.request.update(stores, &self.extraction_id, self.etag, edit).await?;
        with_citations(context, context.find(&self.extraction_id).await?).await
    }
}

/// Replaces the data, which must match the extraction's schema, and resets the verification.
#[derive(Debug, Clone, Serialize)]
pub struct ReplaceExtraction {
    pub extraction_id: ExtractionId,
    pub data: Value,
    /// The version that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for ReplaceExtraction {
    const DECLARATION: Declaration = SERVICE.change("ReplaceExtraction");
    type Output = Extraction;

    async fn run(self, context: &Context) -> Result<Extraction> {
        let (stores, data) = (context.stores(), &self.data);
        let replace = |found: Extraction| async move {
            extraction::check_replacement(stores, &found, "data_json", data).await?;
            Ok(ExtractionChange::Edit { data: data.clone() })
        };
        context.request.update(stores, &self.extraction_id, self.etag, replace).await?;
        with_citations(context, context.find(&self.extraction_id).await?).await
    }
}

/// Records or withdraws a decision about the values at a path, and may correct the value. The extraction becomes verified if
/// every required value is approved then.
#[derive(Debug, Clone, Serialize)]
pub struct ReviewExtractionField {
    pub extraction_id: ExtractionId,
    /// The position, such as `a.b[0].c`. Empty: all values.
    pub path: String,
    /// None: withdraws decisions.
    pub decision: Option<FieldDecision>,
    /// The corrected value. None: the value is unchanged.
    pub value: Option<Value>,
    /// The version that the decision is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for ReviewExtractionField {
    const DECLARATION: Declaration = SERVICE.change("ReviewExtractionField");
    type Output = Extraction;

    async fn run(self, context: &Context) -> Result<Extraction> {
        extraction::check_review(&self.path, self.decision, self.value.as_ref())?;
        let (stores, path, value) = (context.stores(), &self.path, &self.value);
        let review = |found: Extraction| async move {
            let review = extraction::plan_review(stores, &found, path, self.decision, value.clone()).await?;
            Ok(ExtractionChange::Review(review))
        };
        context.request.update(stores, &self.extraction_id, self.etag, review).await?;
        with_citations(context, context.find(&self.extraction_id).await?).await
    }
}

/// Lists the last changes of the values of an extraction and the decisions about them, newest first.
#[derive(Debug, Clone, Serialize)]
pub struct ListFieldHistory {
    pub extraction_id: ExtractionId,
    /// The position of a value, an object or an array. Empty: all changes.
    pub path: String,
    pub list: ListRequest,
}

impl Operation for ListFieldHistory {
    const DECLARATION: Declaration = SERVICE.read("ListFieldHistory");
    type Output = ListPage<FieldChange>;

    async fn run(self, context: &Context) -> Result<ListPage<FieldChange>> {
        filter::require_empty(&self.list.filter)?;
        let selects = folio_tools::path::selector(&self.path)?;
        let scope = ["field history", context.principal().org.as_str(), self.extraction_id.as_str(), &self.path];
        let listing = Listing::new(&self.list, &scope, SortKeys::CreateTime, Order::Newest, LARGE_PAGE_MAX)?;
        let extraction = context.find::<Extraction>(&self.extraction_id).await?;
        let mut changes: Vec<FieldChange> =
            extraction.fields.changes.into_iter().filter(|change| selects(&change.path)).collect();
        if listing.page.order == Order::Newest {
            changes.reverse();
        }
        listing.slice(changes)
    }
}

/// Requests a review of the values, or withdraws the request. While a review is requested, the extraction waits in the inbox of
/// the organization until it is verified.
#[derive(Debug, Clone, Serialize)]
pub struct RequestReview {
    pub extraction_id: ExtractionId,
    pub requested: bool,
    /// The version that the request is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for RequestReview {
    const DECLARATION: Declaration = SERVICE.change("RequestReview");
    type Output = Extraction;

    async fn run(self, context: &Context) -> Result<Extraction> {
        let request = ExtractionChange::RequestReview { requested: self.requested };
        with_citations(context, context.update(&self.extraction_id, self.etag, request).await?).await
    }
}

/// Records or withdraws the confirmation of the data by the caller.
#[derive(Debug, Clone, Serialize)]
pub struct VerifyExtraction {
    pub extraction_id: ExtractionId,
    pub verified: bool,
    /// The version that was verified. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for VerifyExtraction {
    const DECLARATION: Declaration = SERVICE.change("VerifyExtraction");
    type Output = Extraction;

    async fn run(self, context: &Context) -> Result<Extraction> {
        let verify = ExtractionChange::Verify { verified: self.verified };
        with_citations(context, context.update(&self.extraction_id, self.etag, verify).await?).await
    }
}

delete_operation! {
    DeleteExtraction { extraction_id: ExtractionId } of Extraction
}

/// Lists extractions, of one document or of all. Filter: `prompt:` and `schema:` the id of a resource or revision, `tag:`
/// tag ids of the document, `verified:` true or false.
#[derive(Debug, Clone, Serialize)]
pub struct ListExtractions {
    /// None: all documents.
    pub document_id: Option<DocumentId>,
    /// Times of creation. Default: all.
    pub period: Period,
    /// If false, the extractions are returned without their data.
    pub include_data: bool,
    pub list: ListRequest,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ExtractionPage {
    /// Without data, `original` is null, `edited` is None, the report has no values, and there are no reviews.
    pub page: ListPage<Extraction>,
    pub has_data: bool,
}

impl Operation for ListExtractions {
    const DECLARATION: Declaration = SERVICE.read("ListExtractions");
    type Output = ExtractionPage;

    async fn run(self, context: &Context) -> Result<ExtractionPage> {
        let (org, Period { start_time, end_time }) = (&context.principal().org, self.period);
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
        let document = self.document_id.as_ref().map(ToString::to_string).unwrap_or_default();
        let scope = [Extraction::KIND, org.as_str(), &document, &text(start_time), &text(end_time)];
        let listing = Listing::new(&self.list, &scope, SortKeys::CreateTime, Order::Newest, LARGE_PAGE_MAX)?;
        self.period.bounds(|_| Timestamp::MIN, Timestamp::MAX)?;
        let mut filter = extraction_filter(&self.list.filter)?;
        if start_time.is_some() || end_time.is_some() {
            filter.created = Some(CreationPeriod { start: start_time, end: end_time });
        }
        if let Some(document) = &self.document_id {
            context.find::<Document>(document).await?;
            filter.document = Some(document.clone());
        }
        let (store, filter, has_data) = (&context.stores().of::<Extraction>(), &filter, self.include_data);
        let read = |request: PageRequest| async move {
            let page = store.list(org, filter, &request).await;
            page.map(|page| if has_data { page } else { without_data(page) })
        };
        Ok(ExtractionPage { page: listing.fetch(read).await?, has_data })
    }
}

fn without_data(page: Page<Extraction>) -> Page<Extraction> {
    let bare = |extraction: Extraction| {
        let report = extraction.report.without_values();
        let fields = FieldLog { requested_by: extraction.fields.requested_by.clone(), ..FieldLog::default() };
        Extraction { original: Value::Null, edited: None, report, fields, ..extraction }
    };
    Page { items: page.items.into_iter().map(bare).collect(), ..page }
}

pub(crate) fn extraction_filter(text: &str) -> Result<ExtractionFilter> {
    let mut filter = ExtractionFilter::default();
    for condition in filter::parse(text)? {
        match condition.field.as_str() {
            "prompt" => match condition.id()? {
                PromptRef::Newest(id) => filter::set_once(&mut filter.prompt, &condition, id)?,
                PromptRef::Revision(revid) => filter::set_once(&mut filter.prompt_revision, &condition, revid)?,
            },
            "schema" => match condition.id()? {
                SchemaRef::Newest(id) => filter::set_once(&mut filter.schema, &condition, id)?,
                SchemaRef::Revision(revid) => filter::set_once(&mut filter.schema_revision, &condition, revid)?,
            },
            "tag" => filter.document_tags.push(condition.id()?),
            "verified" => filter::set_once(&mut filter.verified, &condition, condition.flag()?)?,
            _ => return Err(filter::unknown_field(&condition, "prompt, schema, tag and verified")),
        }
    }
    filter::check_tags(filter.document_tags.len())?;
    Ok(filter)
}

#[cfg(test)]
mod tests;
