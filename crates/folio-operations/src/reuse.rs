//! Extractions that a repeated run returns instead of paying again: a completed one, or one in progress.

use folio_history::job::{JobFilter, JobHeader};
use folio_resources::{Document, Extraction, ExtractionFilter, ExtractionState};
use folio_tools::extraction::{AGENT_JOB_KIND, JOB_KIND, JobInput};
use folio_types::page::PageRequest;
use folio_types::{DocumentId, ExtractionId, PromptRevId, Result};

use crate::context::Context;
use crate::extractions::{ExtractionRun, with_citations};
use crate::jobs::JobView;
use crate::list::LARGE_PAGE_MAX;
use crate::single_flight::SingleFlightGuard;

/// Maximum number of the newest extractions of a document with a revision among which a completed one is found.
// proto: none "an older extraction is made again"
const EXTRACTIONS_MAX: u32 = 20;

/// Waits until no other run of this process extracts the document with the revision. The guard excludes further runs.
pub(crate) async fn join(
    context: &Context,
    document: &DocumentId,
    prompt: &PromptRevId,
) -> SingleFlightGuard<ExtractionId> {
    let org = context.principal().org.as_str();
    let key = ExtractionId::derive(&[org, "runs that are shared", document.as_str(), &prompt.to_string()]);
    context.running_extractions().acquire(&key).await
}

/// Returns the newest completed extraction of a document with a revision of a prompt, or the open job that extracts it. None: a
/// run must begin.
///
/// # Errors
/// `NOT_FOUND` if the document does not exist.
pub(crate) async fn find(
    context: &Context,
    document: &DocumentId,
    prompt: &PromptRevId,
) -> Result<Option<ExtractionRun>> {
    let org = &context.principal().org;
    context.find::<Document>(document).await?;
    let filter = ExtractionFilter {
        document: Some(document.clone()),
        prompt_revision: Some(prompt.clone()),
        ..ExtractionFilter::default()
    };
    let request = PageRequest { size: EXTRACTIONS_MAX, ..PageRequest::default() };
    let found = context.stores().of::<Extraction>().list(org, &filter, &request).await?.items;
    if let Some(completed) = found.iter().find(|found| found.state() == ExtractionState::Completed) {
        let completed = with_citations(context, completed.clone()).await?;
        return Ok(Some(ExtractionRun::Extracted(Box::new(completed))));
    }
    let in_progress: Vec<&ExtractionId> =
        found.iter().filter(|found| found.state() == ExtractionState::InProgress).map(|found| &found.id).collect();
    let filter = JobFilter { is_open: Some(true), ..JobFilter::default() };
    let request = PageRequest { size: LARGE_PAGE_MAX, ..PageRequest::default() };
    let open = context.jobs().list(org, &filter, &request).await?.items;
    match open.into_iter().find(|job| is_run(job, document, prompt, &in_progress)) {
        Some(job) => Ok(Some(ExtractionRun::Job(Box::new(JobView::read(context, job).await?)))),
        None => Ok(None),
    }
}

/// Returns true if a job extracts only this document with this revision. `in_progress`: the extractions on which the agent works.
fn is_run(job: &JobHeader, document: &DocumentId, prompt: &PromptRevId, in_progress: &[&ExtractionId]) -> bool {
    let [item] = job.items.as_slice() else { return false };
    if job.pages.is_some() {
        return false;
    }
    match job.kind.as_str() {
        JOB_KIND => {
            item.id == document.as_str() && job.read_input::<JobInput>().is_ok_and(|input| input.prompt == *prompt)
        }
        AGENT_JOB_KIND => in_progress.iter().any(|extraction| item.id == extraction.as_str()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_history::job::NewJob;
    use folio_types::{JobId, OrgId, Principal, PromptId, Role, Timestamp, UserId};
    use serde_json::json;

    use super::*;

    fn job(kind: &str, prompt: &PromptRevId, items: &[&str]) -> JobHeader {
        let new = NewJob {
            id: JobId::derive(&["job"]),
            principal: Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member),
            kind: kind.to_owned(),
            input: json!(JobInput::new(prompt.clone())),
            items: items.iter().map(|item| (*item).to_owned()).collect(),
            running_max: Duration::from_secs(1),
            at: Timestamp::UNIX_EPOCH,
        };
        new.header().unwrap()
    }

    #[test]
    fn a_job_is_joined_only_if_it_extracts_the_document_with_the_revision() {
        let (document, extraction) = (DocumentId::derive(&["d"]), ExtractionId::derive(&["e"]));
        let revision = |number| PromptRevId::new(PromptId::derive(&["p"]), number);
        let is_joined = |job: &JobHeader| is_run(job, &document, &revision(1), &[&extraction]);
        let (of_document, of_extraction) = (document.as_str(), extraction.as_str());
        assert!(is_joined(&job(JOB_KIND, &revision(1), &[of_document])));
        assert!(is_joined(&job(AGENT_JOB_KIND, &revision(1), &[of_extraction])));
        for other in [
            job(JOB_KIND, &revision(2), &[of_document]),
            job(JOB_KIND, &revision(1), &["doc_other"]),
            job(JOB_KIND, &revision(1), &[of_document, "doc_other"]),
            job(AGENT_JOB_KIND, &revision(1), &["ext_other"]),
            job("webhook", &revision(1), &[of_document]),
        ] {
            assert!(!is_joined(&other), "{other:?}");
        }
    }
}
