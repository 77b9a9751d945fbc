//! The documents on which a prompt runs because it got a tag or a revision.

use folio_history::job::{ExtractionInput, TagRun, TagRunWrite};
use folio_jobs::JobRequest;
use folio_resources::{Organization, Prompt};
use folio_tools::extraction::JOB_KIND;
use folio_types::access::Scope;
use folio_types::limits::TAG_RUN_DOCUMENTS_MAX;
use folio_types::{DocumentId, JobId, OrgId, Reason, Result};
use serde_json::json;

use crate::context::Context;
use crate::document_selection::{Selected, with_any_tag};
use crate::extractions::{ExtractionEstimate, estimate};
use crate::jobs::JobView;

/// The documents with a tag of a prompt that got a tag or a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct TagRunPlan {
    /// The documents whose texts are ready, at most [`TAG_RUN_DOCUMENTS_MAX`].
    pub document_ids: Vec<DocumentId>,
    /// True if more documents have a tag of the prompt.
    pub has_more: bool,
    /// The default if no document could be planned.
    pub estimate: ExtractionEstimate,
    /// The job that runs the prompt on these documents. None: the organization does not permit their number, or has too many
    /// open jobs, or the job of an unchanged revision was deleted after its retention.
    pub job: Option<JobView>,
}

/// Returns the documents with a tag of a prompt. If the organization permits their number, a job runs the newest revision on
/// them. Idempotent by the revision. None: no document has a tag of the prompt, or the token of the caller does not permit the
/// caller to list documents and to run extractions.
pub(crate) async fn plan(context: &Context, prompt: &Prompt) -> Result<Option<TagRunPlan>> {
    if !context.caller.covers(Scope::Documents) || !context.caller.covers(Scope::Extractions) {
        return Ok(None);
    }
    let max = usize::try_from(TAG_RUN_DOCUMENTS_MAX).unwrap_or(usize::MAX);
    let (selected, has_more) = with_any_tag(context, &prompt.latest.tags, max).await?;
    if selected.is_empty() {
        return Ok(None);
    }
    let estimate = match estimate(context, &prompt.latest, None, &selected).await {
        Ok(estimate) => estimate,
        Err(error) if error.reason == Reason::StoreUnavailable => return Err(error),
        // The prompt is stored, although it cannot run now.
        Err(_) => ExtractionEstimate::default(),
    };
    let organizations = context.stores().of::<Organization>();
    let organization = organizations.get(&OrgId::platform(), &context.principal().org).await?;
    let permitted = organization.map_or(0, |organization| organization.tag_runs.batch_documents);
    let is_permitted = !has_more && selected.len() <= usize::try_from(permitted).unwrap_or(usize::MAX);
    let job = if is_permitted { start(context, prompt, &selected).await? } else { None };
    let document_ids = selected.into_iter().map(|document| document.id).collect();
    Ok(Some(TagRunPlan { document_ids, has_more, estimate, job }))
}

/// Creates the job of a revision. None: the organization has too many open jobs, or the job was deleted after its retention.
async fn start(context: &Context, prompt: &Prompt, selected: &[Selected]) -> Result<Option<JobView>> {
    let (principal, revid) = (context.principal(), &prompt.latest.revid);
    let tag_run = Some(TagRun { at: context.environment().now(), write: TagRunWrite::Prompt });
    let input = ExtractionInput { tag_run, ..ExtractionInput::new(revid.clone()) };
    let request = JobRequest {
        id: JobId::derive(&[principal.org.as_str(), "tag runs of a prompt", &revid.to_string()]),
        principal: principal.clone(),
        kind: JOB_KIND.to_owned(),
        input: json!(input),
        items: selected.iter().map(|document| document.id.to_string()).collect(),
    };
    match context.job_creator()?.create(request).await {
        Ok(job) => JobView::read(context, job).await.map(Some),
        Err(error) if error.reason == Reason::QueueFull => {
            tracing::warn!(%error, prompt = %revid, "a prompt does not run on the documents with its tags");
            Ok(None)
        }
        // The id of a deleted job is not used again.
        Err(error) if error.reason == Reason::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
