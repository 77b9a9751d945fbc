//! Creates the deliveries of events, before the records of the events are written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use folio_history::job::JobQueue;
use folio_resources::{ENDPOINTS_MAX, WebhookEndpoint, WebhookEndpointFilter, WebhookEndpointId};
use folio_storage::{JobRecordStore, JobStore, ResourceStore, Stores, hint_job};
use folio_types::page::PageRequest;
use folio_types::{Error, JobId, OrgId, Reason, Result};
use futures::future::try_join_all;
use moka::future::Cache;

use crate::counters::Counters;
use crate::delivery::{admit, create_delivery, open_deliveries};
use crate::event::{Event, EventType};

/// Maximum age of the cached endpoints of an organization, after which a change by another process applies.
// proto: WebhookEndpointService "after {} seconds"
const ENDPOINTS_TTL: Duration = Duration::from_secs(5);
/// Maximum age of the cached number of open deliveries of an endpoint.
const OPEN_TTL: Duration = Duration::from_secs(10);
/// Maximum number of cached organizations, and of cached endpoints.
const CACHED_MAX: u64 = 10_000;
/// Maximum number of endpoints that are read, because concurrent creations may exceed [`ENDPOINTS_MAX`].
const READ_MAX: u64 = 2 * ENDPOINTS_MAX;

struct Subscription {
    endpoint: WebhookEndpointId,
    event_types: BTreeSet<String>,
}

/// The open deliveries of an endpoint.
struct OpenDeliveries {
    /// Number in the store when it was read.
    stored: u64,
    /// Number of deliveries that this process has created since then.
    created: AtomicU64,
}

impl OpenDeliveries {
    /// Returns the number of open deliveries, of which some may have ended since the store was read.
    fn count(&self) -> u64 {
        self.stored.saturating_add(self.created.load(Ordering::Relaxed))
    }

    /// Returns true if the endpoint may have fewer open deliveries than the maximum, although the number reaches it.
    fn is_outdated(&self) -> bool {
        admit(self.stored).is_ok() && admit(self.count()).is_err()
    }
}

pub(crate) struct Outbox {
    jobs: Arc<dyn JobRecordStore>,
    endpoints: ResourceStore<WebhookEndpoint>,
    hints: Arc<dyn JobStore>,
    counters: Counters,
    /// The enabled endpoints of organizations.
    subscriptions: Cache<OrgId, Arc<Vec<Subscription>>>,
    open: Cache<WebhookEndpointId, Arc<OpenDeliveries>>,
}

impl Outbox {
    pub(crate) fn new(stores: &Stores, hints: Arc<dyn JobStore>, counters: Counters) -> Self {
        Self {
            jobs: Arc::clone(&stores.jobs),
            endpoints: stores.of(),
            hints,
            counters,
            subscriptions: Cache::builder().max_capacity(CACHED_MAX).time_to_live(ENDPOINTS_TTL).build(),
            open: Cache::builder().max_capacity(CACHED_MAX).time_to_live(OPEN_TTL).build(),
        }
    }

    /// Returns true if an enabled endpoint of the organization receives one of these types.
    pub(crate) async fn has_endpoints(&self, org: &OrgId, types: &[EventType]) -> Result<bool> {
        let subscriptions = self.subscriptions(org).await?;
        Ok(types.iter().any(|known| subscriptions.iter().any(|found| found.event_types.contains(known.as_str()))))
    }

    /// Reads the endpoints of an organization again at the next event.
    pub(crate) async fn forget(&self, org: &OrgId) {
        self.subscriptions.invalidate(org).await;
    }

    /// Creates the deliveries of events, and returns their jobs. The caller writes the records of the events afterwards.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` or `OVERLOADED`: the records must not be written.
    pub(crate) async fn enqueue(&self, org: &OrgId, events: &[Event]) -> Result<Vec<JobId>> {
        if events.is_empty() {
            return Ok(Vec::new());
        }
        let subscriptions = self.subscriptions(org).await?;
        let mut created = Vec::new();
        for event in events {
            let receivers = subscriptions.iter().filter(|found| found.event_types.contains(&event.name));
            created.extend(receivers.map(|found| self.enqueue_to(org, &found.endpoint, event)));
        }
        Ok(try_join_all(created).await?.into_iter().flatten().collect())
    }

    /// Creates a delivery to one endpoint. None: the event is not delivered to it.
    async fn enqueue_to(&self, org: &OrgId, endpoint: &WebhookEndpointId, event: &Event) -> Result<Option<JobId>> {
        let created = async {
            let mut open = self.open(org, endpoint).await?;
            if open.is_outdated() {
                self.open.invalidate(endpoint).await;
                open = self.open(org, endpoint).await?;
            }
            admit(open.count())?;
            let attempt = event.at.as_nanosecond().to_string();
            let header = create_delivery(&*self.jobs, (org, endpoint), event, &[&attempt], event.at).await?;
            open.created.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Error>(header.id)
        };
        match created.await {
            Ok(id) => Ok(Some(id)),
            Err(error) if is_store_failure(&error) => Err(error),
            // An endpoint must not prevent the write of a state.
            Err(error) => {
                self.counters.count_dropped();
                tracing::warn!(%error, %endpoint, event = event.name.as_str(), "an event is not delivered to an endpoint");
                Ok(None)
            }
        }
    }

    /// Adds hints of deliveries, so that nodes start them at once. The caller has written the records of the events.
    pub(crate) async fn publish(&self, org: &OrgId, jobs: &[JobId]) {
        for job in jobs {
            hint_job(&*self.hints, JobQueue::Deliveries, org, job).await;
        }
    }

    async fn subscriptions(&self, org: &OrgId) -> Result<Arc<Vec<Subscription>>> {
        let load = async {
            let request = PageRequest { size: u32::try_from(READ_MAX).unwrap_or(u32::MAX), ..PageRequest::default() };
            let found = self.endpoints.list(org, &WebhookEndpointFilter::default(), &request).await?.items;
            let enabled = found.into_iter().filter(|endpoint| endpoint.enabled);
            let subscription = |WebhookEndpoint { id, event_types, .. }| Subscription { endpoint: id, event_types };
            Ok::<_, Error>(Arc::new(enabled.map(subscription).collect::<Vec<_>>()))
        };
        let found = self.subscriptions.try_get_with_by_ref(org, load).await;
        found.map_err(|error: Arc<Error>| (*error).clone())
    }

    async fn open(&self, org: &OrgId, endpoint: &WebhookEndpointId) -> Result<Arc<OpenDeliveries>> {
        let load = async {
            let stored = open_deliveries(&*self.jobs, org, endpoint).await?;
            Ok::<_, Error>(Arc::new(OpenDeliveries { stored, created: AtomicU64::new(0) }))
        };
        let found = self.open.try_get_with_by_ref(endpoint, load).await;
        found.map_err(|error: Arc<Error>| (*error).clone())
    }
}

/// Returns true if the store did not accept a job now, and may accept it later. The caller repeats the write that causes the job, so
/// that no job is lost.
pub(crate) fn is_store_failure(error: &Error) -> bool {
    matches!(error.reason, Reason::StoreUnavailable | Reason::Overloaded)
}

#[cfg(test)]
mod tests {
    use folio_storage::SharedOptions;
    use folio_storage_embedded::{EmbeddedStore, Options as StoreOptions};
    use folio_types::{Environment as _, System};

    use super::*;

    #[tokio::test]
    async fn deliveries_that_ended_within_seconds_leave_no_endpoint_full() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(StoreOptions::at(folder.path())).unwrap();
        let shared = folio_storage_memory::shared_stores(Arc::new(System), SharedOptions::default());
        let outbox = Outbox::new(&store.stores(), shared.jobs, Counters::default());
        let (org, endpoint) = (OrgId::derive(&["o"]), WebhookEndpointId::derive(&["e"]));
        let event = Event::test(&org, &endpoint, &["r"], System.now());
        for (stored, created, is_delivered) in [(0, 999, true), (0, 1_000, true), (999, 1, true), (1_000, 0, false)] {
            let open = OpenDeliveries { stored, created: AtomicU64::new(created) };
            outbox.open.insert(endpoint.clone(), Arc::new(open)).await;
            let job = outbox.enqueue_to(&org, &endpoint, &event).await.unwrap();
            assert_eq!(job.is_some(), is_delivered, "{stored} stored, {created} created");
        }
        assert_eq!(outbox.counters.dropped(), 1);
    }
}
