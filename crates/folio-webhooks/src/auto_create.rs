//! Creates the job that makes a proposal for a document, before the write that settles the text of the document.

use folio_history::job::{AUTO_CREATE_KIND, AutoCreateInput};
use folio_resources::Document;
use folio_types::{JobId, Result, Timestamp};
use serde_json::json;

use crate::follow_up_jobs::{FollowUpJob, FollowUpJobs};

/// Creates the job of a document whose upload requested a proposal. `at`: the time of the write that settles the text. None: the
/// upload requested none, or the organization has too many open jobs.
///
/// # Errors
/// `STORE_UNAVAILABLE` or `OVERLOADED`: the text must not be written.
pub(crate) async fn create(jobs: &FollowUpJobs, document: &Document, at: Timestamp) -> Result<Option<JobId>> {
    if !document.has_auto_create {
        return Ok(None);
    }
    let (org, id) = (&document.org, &document.id);
    let job = FollowUpJob {
        id: JobId::derive(&[org.as_str(), AUTO_CREATE_KIND, id.as_str(), &at.to_string()]),
        kind: AUTO_CREATE_KIND,
        input: json!(AutoCreateInput { at, run_budget: document.auto_create_budget }),
        item: id.to_string(),
        at,
        uses_reserve: false,
    };
    jobs.create(org, document.created_by.clone(), job).await
}
