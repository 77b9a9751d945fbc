//! Creates the job that makes a proposal for a document, before the write that settles the text of the document.

use folio_history::job::{AUTO_CREATE_KIND, AutoCreateInput, JobLimits, NewJob};
use folio_resources::Document;
use folio_storage::{JobPageStore, JobRecordStore, create_job};
use folio_types::{JobId, Principal, Result, Role, Timestamp};
use serde_json::json;

use crate::counters::Counters;
use crate::outbox::is_store_failure;

/// Creates the job of a document whose upload requested a proposal. `at`: the time of the write that settles the text. None: the
/// upload requested none, or the organization has too many open jobs.
///
/// # Errors
/// `STORE_UNAVAILABLE`: the text must not be written.
pub(crate) async fn create(
    (jobs, pages): (&dyn JobRecordStore, &JobPageStore),
    (limits, counters): (&JobLimits, &Counters),
    document: &Document,
    at: Timestamp,
) -> Result<Option<JobId>> {
    if !document.has_auto_create {
        return Ok(None);
    }
    let (org, id) = (&document.org, &document.id);
    let new = NewJob {
        id: JobId::derive(&[org.as_str(), AUTO_CREATE_KIND, id.as_str(), &at.to_string()]),
        principal: Principal::new(org.clone(), document.created_by.clone(), Role::Member),
        kind: AUTO_CREATE_KIND.to_owned(),
        input: json!(AutoCreateInput { at, run_budget: document.auto_create_budget }),
        items: vec![id.to_string()],
        running_max: limits.running_time,
        at,
    };
    match create_job(jobs, pages, limits, new).await {
        Ok(header) => Ok(Some(header.id)),
        Err(error) if is_store_failure(&error) => Err(error),
        // A full queue must not prevent the text of a document.
        Err(error) => {
            counters.count_refused_jobs(AUTO_CREATE_KIND, error.reason.as_str(), 1);
            tracing::warn!(%error, document = %id, "no agent makes a proposal for a document");
            Ok(None)
        }
    }
}
