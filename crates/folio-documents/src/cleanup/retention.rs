//! Expiry of threads by the retention of their organization.
//!
//! The search marks each thread that had no activity during the retention period: it sets the expiry of the thread, on
//! condition that the header of the thread is unchanged, so that concurrent use keeps the thread. The sweep of the
//! conversations removes marked threads.

use folio_history::thread::{Fence, ThreadFilter, ThreadHeader};
use folio_resources::{Organization, OrganizationFilter};
use folio_storage::{ListSweep, Stores};
use folio_types::{OrgId, Result, Timestamp};
use jiff::SignedDuration;

use super::Schedule;

/// Organizations per page.
const ORGANIZATIONS: u32 = 1_000;
/// Threads per page.
const THREADS: u32 = 100;

pub(super) struct Retention {
    pub(super) stores: Stores,
    pub(super) schedule: Schedule,
}

impl Retention {
    pub(super) async fn run(&mut self, now: Timestamp) {
        if !self.schedule.is_due(now) {
            return;
        }
        match self.sweep(now).await {
            Ok(0) => {}
            Ok(marked) => tracing::info!(marked, "marked expired threads"),
            Err(error) => tracing::warn!(%error, "the search for expired threads failed"),
        }
    }

    /// Returns the number of marked threads.
    async fn sweep(&self, now: Timestamp) -> Result<u64> {
        let (mut marked, organizations) = (0, self.stores.of::<Organization>());
        let (platform, filter) = (OrgId::platform(), OrganizationFilter::default());
        let mut list = ListSweep::new(&self.stores.unreadable, "organizations", ORGANIZATIONS);
        while let Some(request) = list.request() {
            for organization in list.items(organizations.list(&platform, &filter, &request).await)? {
                // A failure of one organization does not affect the others.
                match self.mark_threads(&organization, now).await {
                    Ok(threads) => marked += threads,
                    Err(error) => {
                        tracing::warn!(org = %organization.id, %error, "cannot check the threads of an organization; the next search retries")
                    }
                }
            }
        }
        Ok(marked)
    }

    /// Marks the expired threads of an organization in the order of creation. The search ends at the first thread that
    /// was created within the retention period, because all later threads are newer.
    async fn mark_threads(&self, organization: &Organization, now: Timestamp) -> Result<u64> {
        let Some(before) = retention_start(organization, now) else { return Ok(0) };
        let (threads, org) = (&self.stores.threads, &organization.id);
        let mut list = ListSweep::new(&self.stores.unreadable, format_args!("threads of {org}"), THREADS);
        let (filter, mut marked) = (ThreadFilter::default(), 0);
        while let Some(request) = list.request() {
            for thread in list.items(threads.list(org, &filter, &request).await)? {
                if thread.created_at >= before {
                    return Ok(marked);
                }
                if is_expired(&thread, before, now) {
                    let fence = Fence { epoch: thread.epoch, version: thread.version };
                    marked += u64::from(threads.expire_unused(org, &thread.id, fence, now).await?);
                }
            }
        }
        Ok(marked)
    }
}

/// Returns the start of the retention period. None: threads are kept without limit.
fn retention_start(organization: &Organization, now: Timestamp) -> Option<Timestamp> {
    let days = i64::from(organization.thread_retention_days.filter(|days| *days > 0)?);
    now.checked_sub(SignedDuration::from_hours(24 * days)).ok()
}

/// Returns true if a thread expired and is not marked yet.
fn is_expired(thread: &ThreadHeader, before: Timestamp, now: Timestamp) -> bool {
    thread.updated_at < before && thread.open_turn.is_none() && thread.expires_at.is_none_or(|at| at > now)
}

#[cfg(test)]
mod tests {
    use folio_resources::policy::Policy;
    use folio_resources::{OwnQuotas, TagRuns};
    use folio_types::{IngestionMode, limits};

    use super::*;

    #[test]
    fn threads_are_kept_for_the_retention_of_their_organization() {
        let now = Timestamp::constant(1_800_000_000, 0);
        let since = |thread_retention_days| {
            let organization = Organization {
                id: OrgId::derive(&["o"]),
                name: "o".to_owned(),
                created_at: now,
                version: 1,
                policy: Policy::default(),
                approval_ttl_seconds: None,
                thread_retention_days,
                tag_runs: TagRuns::default(),
                auto_create: false,
                ingestion: IngestionMode::default(),
                quotas: OwnQuotas::default(),
            };
            retention_start(&organization, now)
        };
        assert_eq!((since(None), since(Some(0))), (None, None));
        assert_eq!(since(Some(1)), Some(Timestamp::constant(1_800_000_000 - 86_400, 0)));
        assert!(since(Some(limits::THREAD_RETENTION_DAYS_MAX)).is_some());
    }
}
