//! The route that runs a prompt on a document.

use folio_history::job::{ItemState, JobState, WaitReason};
use folio_operations::PromptRef;
use folio_operations::extractions::{ExtractionRun, GetExtraction, RunExtraction};
use folio_operations::jobs::{JobView, WatchJob};
use folio_resources::Extraction;
use folio_types::{Code, DocumentId, Error, ExtractionId, PromptId, Reason};
use futures::StreamExt as _;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::endpoint::post;
use super::extract::{Client, Id, Json, Query};
use super::failure::Failure;
use super::reply::Reply;
use super::results::object;
use super::routes::{Level, Route, org_path, route};

pub(super) fn routes() -> Vec<Route> {
    vec![route::<RunExtraction>(Level::One, post(org_path!("/llm/run/{document_id}"), run))]
}

#[derive(Debug, Deserialize, ToSchema)]
struct RunQuery {
    /// The version of the prompt. Default: `default`, the built-in prompt.
    prompt_revid: Option<String>,
    /// True: a new result. False: a stored result, or the result of a run in progress, is returned. Default: false.
    #[serde(default)]
    force: bool,
}

/// The result of a run.
#[derive(Debug, Serialize, ToSchema)]
struct RunResult {
    /// Always `success`.
    status: &'static str,
    /// The extraction with the result.
    result_id: String,
    /// The data as the model gave it.
    #[schema(value_type = Object)]
    result: Value,
}

impl From<Extraction> for RunResult {
    fn from(extraction: Extraction) -> Self {
        Self { status: "success", result_id: extraction.id.to_string(), result: object(&extraction.original) }
    }
}

async fn run(client: Client, Id(document_id): Id<DocumentId>, Query(query): Query<RunQuery>) -> Reply<Json<RunResult>> {
    let prompt = query.prompt_revid.as_deref().filter(|id| !id.is_empty()).unwrap_or(PromptId::BUILT_IN);
    let prompt_revid: PromptRef = prompt.parse().map_err(|_: Error| Error::not_found("prompt", "of the request"))?;
    let reuse = !query.force;
    let operation = RunExtraction { document_id, prompt_revid, model: None, credit_budget: None, reuse };
    let extraction = match client.run_detached(operation).await.map_err(refused)? {
        ExtractionRun::Extracted(extraction) => *extraction,
        ExtractionRun::Job(job) => {
            let ended = ended(&client, *job).await.map_err(refused)?;
            let extraction_id = extraction_of(&ended).map_err(|error| refused(error.into()))?;
            client.run(GetExtraction { extraction_id }).await?
        }
    };
    Ok(Json(extraction.into()))
}

/// Waits until a job has ended. The job continues if the client disconnects.
///
/// # Errors
/// The error for which the job waits, if it lacks credit or a limit is reached: it may wait for a day.
async fn ended(client: &Client, job: JobView) -> Result<JobView, Failure> {
    let states = client.run(WatchJob { job_id: job.header.id.clone() }).await?;
    let mut states = client.bounded(states);
    let mut newest = job;
    while !newest.header.is_ended()
        && let Some(state) = states.next().await
    {
        newest = state?;
        if let JobState::Waiting { reason: WaitReason::Credit | WaitReason::Limit, error: Some(error), .. } =
            &newest.header.state
        {
            return Err(error.clone().into());
        }
    }
    Ok(newest)
}

/// Returns the extraction that the only item of an ended job made.
///
/// # Errors
/// The error of the item or of the job.
fn extraction_of(job: &JobView) -> Result<ExtractionId, Error> {
    let outcome = job.outcomes.first().and_then(|outcome| outcome.value.get("extraction_id"));
    if let Some(id) = outcome.and_then(Value::as_str) {
        return id.parse();
    }
    let of_item = job.header.items.iter().find_map(|item| match &item.state {
        ItemState::Failed(error) => Some(error.clone()),
        ItemState::Pending | ItemState::Running | ItemState::Done => None,
    });
    Err(of_item.unwrap_or_else(|| match &job.header.state {
        JobState::Failed(error) => error.clone(),
        JobState::Cancelled => Error::new(Code::Cancelled, Reason::JobEnded, "the run was cancelled"),
        _ => Error::internal(format!("the job {} has no result", job.header.id)),
    }))
}

fn refused(failure: Failure) -> Failure {
    let not_read = "OCR required but not run for this document";
    failure.when(Reason::NoText, StatusCode::NOT_FOUND, not_read).when_model_failed("Error processing document")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_history::job::{ItemOutcome, JobHeader, NewJob};
    use folio_types::{JobId, OrgId, Principal, Role, Timestamp, UserId};
    use serde_json::json;

    use super::*;

    fn job(state: JobState, item: ItemState, outcome: Option<Value>) -> JobView {
        let new = NewJob {
            id: JobId::derive(&["job"]),
            principal: Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member),
            kind: "extraction".to_owned(),
            input: json!({}),
            items: vec!["doc".to_owned()],
            running_max: Duration::from_secs(1),
            at: Timestamp::UNIX_EPOCH,
        };
        let mut header: JobHeader = new.header().unwrap();
        header.state = state;
        header.items[0].state = item;
        let outcomes = outcome.map(|value| ItemOutcome { item: 1, attempt: 1, value, at: Timestamp::UNIX_EPOCH });
        JobView { header, outcomes: outcomes.into_iter().collect(), budget: None }
    }

    #[test]
    fn the_result_of_a_job_is_its_extraction_or_its_error() {
        let id = ExtractionId::derive(&["e"]);
        let done = job(JobState::Completed, ItemState::Done, Some(json!({ "extraction_id": id })));
        assert_eq!(extraction_of(&done), Ok(id));
        let error = |reason| Error::precondition(reason, "x");
        let failed = job(JobState::Completed, ItemState::Failed(error(Reason::NoText)), None);
        assert_eq!(extraction_of(&failed).unwrap_err().reason, Reason::NoText);
        let failed = job(JobState::Failed(error(Reason::CreditExhausted)), ItemState::Pending, None);
        assert_eq!(extraction_of(&failed).unwrap_err().reason, Reason::CreditExhausted);
        let cancelled = job(JobState::Cancelled, ItemState::Pending, None);
        assert_eq!(extraction_of(&cancelled).unwrap_err().reason, Reason::JobEnded);
    }
}
