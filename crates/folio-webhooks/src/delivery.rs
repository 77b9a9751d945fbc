//! Deliveries: jobs with one item, which is an event for an endpoint.

use std::time::Duration;

use folio_history::job::{DELIVERY_KIND, ItemOutcome, ItemState, JobFilter, JobHeader, JobQueue, JobState, NewJob};
use folio_resources::WebhookEndpointId;
use folio_storage::JobRecordStore;
use folio_types::page::PageRequest;
use folio_types::{Error, JobId, OrgId, Principal, Reason, Result, Role, Timestamp, UserId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::event::Event;

/// Maximum number of open deliveries of an endpoint. Concurrent events may exceed it slightly.
// proto: WebhookEndpointService.RedeliverWebhook "{} open deliveries"
pub(crate) const OPEN_DELIVERIES_MAX: u64 = 1_000;
/// Maximum time in which the attempts of a delivery run, which are about a hundred in 24 hours.
const RUNNING_MAX: Duration = Duration::from_secs(2 * 60 * 60);

/// An attempt to deliver an event. It is the outcome of the job, also of a failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attempt {
    /// Status of the response. None: there was no response.
    pub status: Option<u16>,
    /// The first line and the headers of the request. Empty: nothing was sent.
    pub request_head: String,
    /// The first line, the headers and the start of the body of the response.
    pub response_head: String,
    /// None: the endpoint accepted the event.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryState {
    /// The event waits for its first or its next attempt.
    Pending,
    Delivered,
    /// No attempt succeeded within 24 hours, or the event was not sent.
    Failed,
}

/// A delivery of an event to an endpoint.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Delivery {
    pub header: JobHeader,
    pub endpoint: WebhookEndpointId,
    pub event: Event,
    /// The newest attempt. None: there was none, or it was not read.
    pub attempt: Option<Attempt>,
}

impl Delivery {
    /// Returns the delivery of a job, without its attempt.
    ///
    /// # Errors
    /// `INTERNAL` if the job is not a delivery of this version.
    pub fn of(header: JobHeader) -> Result<Self> {
        let malformed = || Error::internal(format!("the job {} is not a delivery", header.id));
        let subject = header.items.first().filter(|_| header.queue() == JobQueue::Deliveries).ok_or_else(malformed)?;
        let endpoint = subject.id.parse()?;
        let event = Event::deserialize(&header.input).map_err(|_| malformed())?;
        Ok(Self { endpoint, event, attempt: None, header })
    }

    /// Reads the newest attempt.
    pub async fn with_attempt(self, jobs: &dyn JobRecordStore) -> Result<Self> {
        let outcomes = jobs.outcomes(self.header.org(), &self.header.id, 0, 1).await?;
        let attempt =
            outcomes.into_iter().next().and_then(|ItemOutcome { value, .. }| serde_json::from_value(value).ok());
        Ok(Self { attempt, ..self })
    }

    pub fn state(&self) -> DeliveryState {
        let item = self.header.items.first().map(|item| &item.state);
        match (item, self.header.is_ended()) {
            (Some(ItemState::Done), _) => DeliveryState::Delivered,
            (Some(ItemState::Failed(_)), _) | (_, true) => DeliveryState::Failed,
            (_, false) => DeliveryState::Pending,
        }
    }

    /// Returns the number of attempts.
    pub fn attempts(&self) -> u32 {
        self.header.items.first().map_or(0, |item| item.attempt)
    }

    /// Returns the error of the newest attempt, or the reason for which the event was not sent.
    pub fn error(&self) -> Option<&Error> {
        let of_item = self.header.items.first().and_then(|item| match &item.state {
            ItemState::Failed(error) => Some(error),
            _ => None,
        });
        of_item.or(match &self.header.state {
            JobState::Waiting { error, .. } => error.as_ref(),
            JobState::Failed(error) => Some(error),
            _ => None,
        })
    }

    /// Returns the time of the next attempt. None: the delivery has ended, or waits for a free slot.
    pub fn retry_at(&self) -> Option<Timestamp> {
        match &self.header.state {
            JobState::Waiting { retry_at, .. } => Some(*retry_at),
            _ => None,
        }
    }
}

/// Creates a delivery and returns its job. Idempotent by the event, the endpoint and `attempt`, which distinguishes
/// deliveries of one event.
pub async fn create_delivery(
    jobs: &dyn JobRecordStore,
    (org, endpoint): (&OrgId, &WebhookEndpointId),
    event: &Event,
    attempt: &[&str],
    at: Timestamp,
) -> Result<JobHeader> {
    event.body()?;
    let parts: Vec<&str> = [event.id.as_str(), endpoint.as_str()].into_iter().chain(attempt.iter().copied()).collect();
    let new = NewJob {
        id: JobId::derive(&parts),
        principal: Principal::new(org.clone(), UserId::platform(), Role::Viewer),
        kind: DELIVERY_KIND.to_owned(),
        input: json!(event),
        items: vec![endpoint.to_string()],
        running_max: RUNNING_MAX,
        at,
    };
    jobs.create(new.header()?).await
}

/// Returns the number of open deliveries of an endpoint. A large number may be too low, but not below the maximum.
pub async fn open_deliveries(jobs: &dyn JobRecordStore, org: &OrgId, endpoint: &WebhookEndpointId) -> Result<u64> {
    let filter = JobFilter {
        queue: JobQueue::Deliveries,
        is_open: Some(true),
        subject: Some(endpoint.to_string()),
        ..JobFilter::default()
    };
    let first = PageRequest { size: 1, ..PageRequest::default() };
    Ok(jobs.list(org, &filter, &first).await?.total)
}

/// Checks that an endpoint may have one more open delivery. `open`: the number of its open deliveries.
///
/// # Errors
/// `QUEUE_FULL`.
pub fn admit(open: u64) -> Result<()> {
    if open < OPEN_DELIVERIES_MAX {
        return Ok(());
    }
    let message = format!("the endpoint has {OPEN_DELIVERIES_MAX} open deliveries, the maximum; retry later");
    Err(Error::exhausted(Reason::QueueFull, message))
}

#[cfg(test)]
mod tests {
    use folio_history::job::{JobCommand, WaitReason, retry_at};
    use folio_types::Incarnation;

    use super::*;

    fn at() -> Timestamp {
        Timestamp::constant(1_790_000_000, 0)
    }

    /// Returns the delivery after an attempt that `end` ends.
    fn after(end: JobCommand) -> Delivery {
        let (org, endpoint) = (OrgId::derive(&["o"]), WebhookEndpointId::derive(&["e"]));
        let event = Event::test(&org, &endpoint, &["r"], at());
        let principal = Principal::new(org, UserId::platform(), Role::Viewer);
        let new = NewJob {
            id: JobId::derive(&["j"]),
            principal: principal.clone(),
            kind: DELIVERY_KIND.to_owned(),
            input: json!(event),
            items: vec![endpoint.to_string()],
            running_max: RUNNING_MAX,
            at: at(),
        };
        let queued = new.header().unwrap();
        let delivery = Delivery::of(queued.clone()).unwrap();
        assert_eq!((delivery.state(), delivery.attempts(), delivery.error()), (DeliveryState::Pending, 0, None));
        assert_eq!((delivery.endpoint, delivery.event), (endpoint, event));
        let start = JobCommand::Start { owner: Incarnation::derive(&["n"]), access: Ok(principal) };
        let next = |header: JobHeader, command| header.after(command, at()).unwrap().unwrap();
        let header = [start, JobCommand::Begin { item: 0 }, end].into_iter().fold(queued, next);
        Delivery::of(header).unwrap()
    }

    #[test]
    fn a_delivery_is_pending_until_it_succeeds_or_ends() {
        let error = Error::unavailable(Reason::WebhookFailed, "the endpoint returned 503");
        let retry = retry_at(None, at());
        let wait = JobCommand::Wait { reason: WaitReason::Limit, error: Some(error.clone()), retry_at: retry };
        let waiting = after(wait);
        assert_eq!((waiting.state(), waiting.retry_at(), waiting.attempts()), (DeliveryState::Pending, Some(retry), 1));
        assert_eq!(waiting.error(), Some(&error));
        let delivered = after(JobCommand::Finish { item: 0, result: Ok(()) });
        assert_eq!(
            (delivered.state(), delivered.error(), delivered.retry_at()),
            (DeliveryState::Delivered, None, None)
        );
        let not_sent = Error::precondition(Reason::WebhookFailed, "not sent");
        let ended = after(JobCommand::Finish { item: 0, result: Err(not_sent.clone()) });
        assert_eq!((ended.state(), ended.error()), (DeliveryState::Failed, Some(&not_sent)));
        assert_eq!(after(JobCommand::Cancel).state(), DeliveryState::Failed);
        let expired = after(JobCommand::Fail { error: error.clone() });
        assert_eq!((expired.state(), expired.error()), (DeliveryState::Failed, Some(&error)));
    }

    #[test]
    fn another_job_is_no_delivery() {
        let mut header = after(JobCommand::Cancel).header;
        header.kind = "extraction".to_owned();
        assert_eq!(Delivery::of(header).unwrap_err().reason, Reason::Internal);
    }
}
