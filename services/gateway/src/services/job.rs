//! Serves `JobService`.

use folio_operations::jobs::{CancelJob, GetJob, JobView, ListJobs, PauseJob, ResumeJob, WatchJob};
use folio_operations::{Call, Operation};
use folio_proto::{fields, json, v1};
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
}

pub(super) fn to_proto(view: &JobView) -> v1::Job {
    let mut job = v1::Job::from(&view.header);
    for outcome in &view.outcomes {
        // Items are numbered from 1.
        let index = usize::try_from(outcome.item).ok().and_then(|number| number.checked_sub(1));
        if let Some(item) = index.and_then(|index| job.items.get_mut(index)) {
            item.result_json = json::text(&outcome.value);
        }
    }
    job
}
