//! Serves `JobService`.

use folio_operations::jobs::{
    CancelJob, GetJob, ItemView, JobView, ListJobItems, ListJobs, PauseJob, ResumeJob, RetryJob, WatchJob,
};
use folio_operations::{Call, Operation};
use folio_proto::{fields, job_item, json, v1};
use futures::TryStreamExt as _;
use tonic::Request;
use v1::job_service_server::JobService;

use super::handler::{change, get, list};
use super::{Api, ResponseStream, RpcResult};

#[tonic::async_trait]
impl JobService for Api {
    type WatchJobStream = ResponseStream<v1::WatchJobResponse>;

    get!(get_job, GetJobRequest, GetJob { job_id }, GetJobResponse { job: to_proto });

    list!(list_jobs, ListJobsRequest, ListJobs {}, ListJobsResponse { jobs });

    list!(list_job_items, ListJobItemsRequest, ListJobItems { job_id }, ListJobItemsResponse { items: item_to_proto });

    async fn watch_job(&self, request: Request<v1::WatchJobRequest>) -> RpcResult<Self::WatchJobStream> {
        let call =
            |request: v1::WatchJobRequest| Ok(Call::new(WatchJob { job_id: fields::id("job_id", &request.job_id)? }));
        let response = |states: <WatchJob as Operation>::Output| {
            self.watched(states.map_ok(|state| v1::WatchJobResponse { job: Some(to_proto(&state)) }))
        };
        self.call(request, call, response).await
    }

    change!(cancel_job, CancelJobRequest, CancelJobResponse { job: to_proto }, |request| CancelJob {
        job_id: fields::id("job_id", &request.job_id)?
    });

    change!(pause_job, PauseJobRequest, PauseJobResponse { job: to_proto }, |request| PauseJob {
        job_id: fields::id("job_id", &request.job_id)?
    });

    change!(resume_job, ResumeJobRequest, ResumeJobResponse { job: to_proto }, |request| ResumeJob {
        job_id: fields::id("job_id", &request.job_id)?
    });

    change!(retry_job, RetryJobRequest, RetryJobResponse { job: to_proto }, |request| RetryJob {
        job_id: fields::id("job_id", &request.job_id)?,
        credit_budget: request.credit_budget
    });
}

fn item_to_proto(view: &ItemView) -> v1::JobItem {
    let result_json = view.outcome.as_ref().map(json::text).unwrap_or_default();
    v1::JobItem { result_json, ..job_item(view.number, &view.item) }
}

pub(super) fn to_proto(view: &JobView) -> v1::Job {
    let credit_budget = view.budget.map(Into::into);
    let mut job = v1::Job { credit_budget, ..v1::Job::from(&view.header) };
    for outcome in &view.outcomes {
        if let Some(item) = view.header.index_of(outcome.item).and_then(|index| job.items.get_mut(index)) {
            item.result_json = json::text(&outcome.value);
        }
    }
    job
}
