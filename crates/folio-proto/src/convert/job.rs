//! Conversions of jobs.

use folio_history::job::{ItemState, JobHeader, JobItem, JobState, WaitReason};
use folio_types::{Error, Timestamp};

use super::time;
use crate::{json, v1};

impl From<&JobHeader> for v1::Job {
    /// Converts a job without the results of its items, and without the use of its budget.
    fn from(job: &JobHeader) -> Self {
        let progress = job.progress();
        let (state, wait) = state(&job.state);
        Self {
            job_id: job.id.to_string(),
            kind: job.kind.clone(),
            user_id: job.principal.user.to_string(),
            input_json: json::text(&job.input),
            state: state.into(),
            wait_reason: wait.map_or(v1::JobWaitReason::Unspecified, |wait| wait.reason.into()).into(),
            error: error(&job.state).map(Into::into),
            retry_time: wait.map(|wait| time::to_proto(wait.retry_at)),
            items: (job.items_before().saturating_add(1)..)
                .zip(&job.items)
                .map(|(n, item)| job_item(n, item))
                .collect(),
            done_items: count(progress.done),
            failed_items: count(progress.failed),
            running_milliseconds: job.running_millis,
            max_running_milliseconds: job.running_max_millis,
            create_time: Some(time::to_proto(job.created_at)),
            update_time: Some(time::to_proto(job.updated_at)),
            end_time: job.ended_at.map(time::to_proto),
            expire_time: job.expires_at().map(time::to_proto),
            total_items: count(progress.items),
            credit_budget: None,
        }
    }
}

/// Converts an item without its result. `number`: the number of the item in its job, from 1.
pub fn job_item(number: u32, item: &JobItem) -> v1::JobItem {
    let (state, error) = match &item.state {
        ItemState::Pending => (v1::JobItemState::Pending, None),
        ItemState::Running => (v1::JobItemState::Running, None),
        ItemState::Done => (v1::JobItemState::Done, None),
        ItemState::Failed(error) => (v1::JobItemState::Failed, Some(error)),
    };
    v1::JobItem {
        subject: item.id.clone(),
        state: state.into(),
        attempts: i32::try_from(item.attempt).unwrap_or(i32::MAX),
        error: error.map(Into::into),
        result_json: String::new(),
        done_steps: item.steps.map_or(0, |steps| steps.done),
        steps: item.steps.map_or(0, |steps| steps.total),
        number,
    }
}

impl From<WaitReason> for v1::JobWaitReason {
    fn from(reason: WaitReason) -> Self {
        match reason {
            WaitReason::Approval => Self::Approval,
            WaitReason::Credit => Self::Credit,
            WaitReason::Limit => Self::Limit,
            WaitReason::Store => Self::Store,
        }
    }
}

#[derive(Clone, Copy)]
struct Wait {
    reason: WaitReason,
    retry_at: Timestamp,
}

fn state(state: &JobState) -> (v1::JobState, Option<Wait>) {
    match state {
        JobState::Queued => (v1::JobState::Queued, None),
        JobState::Running => (v1::JobState::Running, None),
        JobState::Waiting { reason, retry_at, .. } => {
            (v1::JobState::Waiting, Some(Wait { reason: *reason, retry_at: *retry_at }))
        }
        JobState::Paused => (v1::JobState::Paused, None),
        JobState::Completed => (v1::JobState::Completed, None),
        JobState::Failed(_) => (v1::JobState::Failed, None),
        JobState::Cancelled => (v1::JobState::Cancelled, None),
    }
}

fn error(state: &JobState) -> Option<&Error> {
    match state {
        JobState::Waiting { error, .. } => error.as_ref(),
        JobState::Failed(error) => Some(error),
        JobState::Queued | JobState::Running | JobState::Paused | JobState::Completed | JobState::Cancelled => None,
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_history::job::{JobCommand, NewJob, retry_at};
    use folio_types::{Incarnation, JobId, OrgId, Principal, Reason, Role, UserId};
    use serde_json::json;

    use super::*;

    fn running() -> JobHeader {
        let principal = Principal::new(OrgId::derive(&["o"]), UserId::derive(&["u"]), Role::Member);
        let new = NewJob {
            id: JobId::derive(&["j"]),
            principal: principal.clone(),
            kind: "extraction".to_owned(),
            input: json!({"prompt": "p"}),
            items: vec!["one".to_owned(), "two".to_owned()],
            running_max: Duration::from_secs(60),
            at: Timestamp::UNIX_EPOCH,
        };
        let start = JobCommand::Start { owner: Incarnation::derive(&["n"]), access: Ok(principal) };
        after(&after(&new.header().unwrap(), start), JobCommand::Begin { item: 0 })
    }

    fn after(job: &JobHeader, command: JobCommand) -> JobHeader {
        job.after(command, Timestamp::UNIX_EPOCH).unwrap().unwrap()
    }

    #[test]
    fn a_waiting_job_states_its_reason_and_its_next_attempt() {
        let job = v1::Job::from(&running());
        assert_eq!((job.state(), job.wait_reason()), (v1::JobState::Running, v1::JobWaitReason::Unspecified));
        assert_eq!(
            (job.items[0].state(), job.items[1].state()),
            (v1::JobItemState::Running, v1::JobItemState::Pending)
        );
        assert_eq!((job.retry_time, job.end_time, job.expire_time), (None, None, None));

        let error = Some(Error::exhausted(Reason::CreditExhausted, "no credit"));
        let retry_at = retry_at(None, Timestamp::UNIX_EPOCH);
        let wait = JobCommand::Wait { reason: WaitReason::Credit, error, retry_at };
        let job = v1::Job::from(&after(&running(), wait));
        assert_eq!((job.state(), job.wait_reason()), (v1::JobState::Waiting, v1::JobWaitReason::Credit));
        assert_eq!(job.error.unwrap().reason, "SPU_EXHAUSTED");
        assert_eq!(job.retry_time, Some(time::to_proto(retry_at)));
    }

    #[test]
    fn an_ended_job_states_its_counts_and_its_error() {
        let failed = Err(Error::not_found("document", "one"));
        let job = after(&running(), JobCommand::Finish { item: 0, result: failed });
        let job = after(&job, JobCommand::Begin { item: 1 });
        let job = after(&job, JobCommand::Finish { item: 1, result: Ok(()) });
        let job = v1::Job::from(&after(&job, JobCommand::Complete));
        assert_eq!((job.state(), job.done_items, job.failed_items), (v1::JobState::Completed, 1, 1));
        assert_eq!(job.items[0].error.as_ref().unwrap().reason, "NOT_FOUND");
        assert!(job.end_time.is_some() && job.expire_time.is_some() && job.error.is_none());
        let job = v1::Job::from(&after(&running(), JobCommand::Cancel));
        assert_eq!((job.state(), job.items[0].state()), (v1::JobState::Cancelled, v1::JobItemState::Pending));
    }
}
