//! Jobs and their progress.

use folio_proto::v1;
use folio_types::Code;
use serde_json::Value;

use crate::connection::Client;
use crate::error::{Error, Result};
use crate::rejoined::{Opening, Rejoined, Update, opening};

/// The states of a job until it has ended. A lost connection is reopened.
pub struct JobStates {
    open: Box<dyn Fn() -> Opening<Option<v1::Job>> + Send + Sync>,
    streams: Rejoined<Option<v1::Job>>,
    is_ended: bool,
}

impl JobStates {
    /// Returns the next state. None: the job has ended.
    ///
    /// # Errors
    /// The server refuses the request, or the connection is lost and cannot be restored.
    pub async fn next(&mut self) -> Result<Option<v1::Job>> {
        while !self.is_ended {
            if let Update::Message(Some(job)) = self.streams.next(&self.open).await? {
                self.streams.progressed();
                self.is_ended = has_ended(&job);
                return Ok(Some(job));
            }
        }
        Ok(None)
    }
}

fn has_ended(job: &v1::Job) -> bool {
    matches!(job.state(), v1::JobState::Completed | v1::JobState::Failed | v1::JobState::Cancelled)
}

impl Client {
    /// Watches a job until it has ended.
    pub fn watch_job(&self, job_id: &str) -> JobStates {
        let (client, job_id) = (self.clone(), job_id.to_owned());
        let open = move || {
            let (mut service, request) = (client.jobs(), v1::WatchJobRequest { job_id: job_id.clone() });
            opening(async move { service.watch_job(request).await }, |state: v1::WatchJobResponse| state.job)
        };
        JobStates { open: Box::new(open), streams: Rejoined::new(self.retry), is_ended: false }
    }

    /// Waits until a job has ended, and returns it. `progress` receives each state of the job.
    ///
    /// # Errors
    /// The server refuses the request, or the connection is lost and cannot be restored. A failed job is no error.
    pub async fn wait_for_job(&self, job_id: &str, mut progress: impl FnMut(&v1::Job)) -> Result<v1::Job> {
        let (mut states, mut last) = (self.watch_job(job_id), v1::Job::default());
        while let Some(job) = states.next().await? {
            progress(&job);
            last = job;
        }
        Ok(last)
    }
}

/// Returns the id of the extraction of an ended job with one item.
///
/// # Errors
/// The error of the item or of the job. `Cancelled`: neither has an error.
pub(crate) fn extraction_of(job: &v1::Job) -> Result<String> {
    let item = job.items.first();
    let result: Value = item.and_then(|item| serde_json::from_str(&item.result_json).ok()).unwrap_or_default();
    if let Some(id) = result.get("extraction_id").and_then(Value::as_str) {
        return Ok(id.to_owned());
    }
    let error = item.and_then(|item| item.error.clone()).or_else(|| job.error.clone());
    Err(error.map_or_else(
        || Error::new(Code::Cancelled, format!("the job {} ended without an extraction", job.job_id)),
        Error::of_message,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_of_a_job_is_its_extraction_or_its_error() {
        let job = |item: v1::JobItem| v1::Job { items: vec![item], ..v1::Job::default() };
        let done = v1::JobItem { result_json: r#"{"extraction_id":"ext_1"}"#.to_owned(), ..Default::default() };
        assert_eq!(extraction_of(&job(done)).unwrap(), "ext_1");
        let error = v1::Error { code: "NOT_FOUND".to_owned(), ..v1::Error::default() };
        let failed = v1::JobItem { error: Some(error), ..v1::JobItem::default() };
        assert_eq!(extraction_of(&job(failed)).unwrap_err().code(), Code::NotFound);
        assert_eq!(extraction_of(&v1::Job::default()).unwrap_err().code(), Code::Cancelled);
    }

    #[test]
    fn a_job_ends_with_its_last_state() {
        let job = |state: v1::JobState| v1::Job { state: state.into(), ..v1::Job::default() };
        for state in [v1::JobState::Completed, v1::JobState::Failed, v1::JobState::Cancelled] {
            assert!(has_ended(&job(state)), "{state:?}");
        }
        for state in [v1::JobState::Queued, v1::JobState::Running, v1::JobState::Waiting, v1::JobState::Paused] {
            assert!(!has_ended(&job(state)), "{state:?}");
        }
    }
}
