//! Items of the inbox that wait because of the state of a resource: lists by position, and streams of the oldest ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_resources::{CreationPeriod, Resource};
use folio_storage::ResourceStore;
use folio_types::page::{Order, PageRequest};
use folio_types::{OrgId, Result, Timestamp};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use tokio::time::Instant;

use crate::followed_list::{self, FollowedList};
use crate::shared_poller::{KeepAlive, Polls, Schedule, SharedPollers};

/// Maximum number of resources of one read.
// proto: none "bounds a read"
const READ_MAX: usize = 100;
/// Maximum number of items of each kind that a stream of the inbox follows.
// proto: WatchInboxResponse "at most {} field reviews"
// proto: WatchInboxResponse "at most {} proposals"
// proto: WatchInboxResponse "at most {} dictionary questions"
// proto: WatchInboxResponse "at most {} cell reviews"
const FOLLOWED_MAX: usize = 100;
/// Interval at which the resources of an organization are read.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// An item that waits because of the state of a resource.
pub(crate) trait WaitingItem: Clone + PartialEq + Send + Sync + 'static {
    type Resource: Resource;

    /// Returns the filter of the resources that wait. `created`: only those of this period.
    fn filter(created: Option<CreationPeriod>) -> <Self::Resource as Resource>::Filter;

    fn of(resource: Self::Resource) -> Self;

    fn id(&self) -> &<Self::Resource as Resource>::Id;

    /// Returns the time of creation of the resource.
    fn created_at(&self) -> Timestamp;
}

/// A change of the items that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WaitingChange<W> {
    /// An item waits, or it changed.
    Pending(W),
    /// The id of an item that no longer waits, or that is no longer one of the followed items.
    Removed(String),
    /// The initial list is complete. Also sent as a keep-alive.
    CaughtUp,
}

/// Returns at most `limit` items, the oldest first. The list starts after the item `after`, which its time of creation and its id
/// identify. A list with fewer items than `limit` is the last page.
pub(crate) async fn read<W: WaitingItem>(
    store: &ResourceStore<W::Resource>,
    org: &OrgId,
    after: Option<&(Timestamp, <W::Resource as Resource>::Id)>,
    limit: usize,
) -> Result<Vec<W>> {
    // The lists of the stores are ordered by microseconds, and then by ids.
    let after = after.map(|(at, id)| (at.as_microsecond(), id.to_string()));
    let created =
        after.as_ref().map(|(at, _)| CreationPeriod { start: Timestamp::from_microsecond(*at).ok(), end: None });
    let filter = W::filter(created);
    let size = u32::try_from(limit.min(READ_MAX)).unwrap_or_default();
    let mut request = PageRequest { size, order: Order::Oldest, ..PageRequest::default() };
    let is_after = |item: &W| {
        let position = (item.created_at().as_microsecond(), item.id().to_string());
        after.as_ref().is_none_or(|after| position > *after)
    };
    let mut pending = Vec::new();
    loop {
        let page = store.list(org, &filter, &request).await?;
        pending.extend(page.items.into_iter().map(W::of).filter(&is_after));
        request.token = page.next;
        if pending.len() >= limit || request.token.is_none() {
            pending.truncate(limit);
            return Ok(pending);
        }
    }
}

/// Returns the number of items. Cost: a list with one resource.
pub(crate) async fn count<W: WaitingItem>(store: &ResourceStore<W::Resource>, org: &OrgId) -> Result<u64> {
    let request = PageRequest { size: 1, ..PageRequest::default() };
    Ok(store.list_versions(org, &W::filter(None), &request).await?.total)
}

/// Subscribes to the oldest items of an organization.
pub(crate) fn subscribe<W: WaitingItem>(
    pollers: &SharedPollers<OrgId, FollowedList<W>>,
    org: &OrgId,
    store: ResourceStore<W::Resource>,
    random: u128,
) -> Polls<FollowedList<W>> {
    let of_poller = org.clone();
    let read = move |last: Option<Arc<FollowedList<W>>>| {
        let (store, org) = (store.clone(), of_poller.clone());
        async move {
            let last = last.as_deref().map(Vec::as_slice).unwrap_or_default();
            let (filter, oldest) = (W::filter(None), (Order::Oldest, FOLLOWED_MAX));
            followed_list::read(&store, &org, &filter, oldest, last, W::of).await
        }
    };
    pollers.subscribe(org, Schedule { interval: POLL_INTERVAL, random }, read)
}

/// Streams the changes of the oldest items.
pub(crate) fn watch<W: WaitingItem>(mut polls: Polls<FollowedList<W>>) -> BoxStream<'static, Result<WaitingChange<W>>> {
    let changes = async_stream::try_stream! {
        let mut reported = Vec::new();
        let mut keep_alive = KeepAlive::default();
        loop {
            let poll = polls.next().await?;
            let current: Vec<W> = poll.iter().map(|found| found.item.clone()).collect();
            for change in changes(&reported, &current) {
                keep_alive.on_change(Instant::now());
                yield change;
            }
            reported = current;
            if keep_alive.is_due(Instant::now()) {
                yield WaitingChange::CaughtUp;
            }
        }
    };
    changes.boxed()
}

/// Returns the changes between two polls.
fn changes<W: WaitingItem>(before: &[W], after: &[W]) -> Vec<WaitingChange<W>> {
    let by_id =
        |list: &[W]| -> BTreeMap<String, W> { list.iter().map(|item| (item.id().to_string(), item.clone())).collect() };
    let (old, new) = (by_id(before), by_id(after));
    let removed = before.iter().map(|item| item.id().to_string()).filter(|id| !new.contains_key(id));
    let changed = after.iter().filter(|item| old.get(&item.id().to_string()) != Some(*item));
    let changed = changed.map(|item| WaitingChange::Pending(item.clone()));
    removed.map(WaitingChange::Removed).chain(changed).collect()
}

#[cfg(test)]
mod tests {
    use folio_types::{DocumentId, ExtractionId, PromptId, PromptRevId, SchemaId, SchemaRevId};

    use super::*;
    use crate::pending_reviews::PendingReview;

    fn review(name: &str, approved: usize) -> PendingReview {
        PendingReview {
            extraction: ExtractionId::derive(&[name]),
            document: DocumentId::derive(&["document"]),
            prompt: PromptRevId::new(PromptId::derive(&["prompt"]), 1),
            schema: Some(SchemaRevId::new(SchemaId::derive(&["schema"]), 1)),
            requested_by: None,
            values: 3,
            approved,
            rejected: 0,
            created_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn the_changes_between_polls_are_new_changed_and_removed_items() {
        let (one, two, three) = (review("one", 0), review("two", 0), review("three", 0));
        let pending = |review: &PendingReview| WaitingChange::Pending(review.clone());
        let decided = review("two", 1);
        for (before, after, expected) in [
            (vec![], vec![], vec![]),
            (vec![], vec![one.clone(), two.clone()], vec![pending(&one), pending(&two)]),
            (vec![one.clone(), two.clone()], vec![one.clone(), two.clone()], vec![]),
            (vec![one.clone(), two.clone()], vec![one.clone(), decided.clone()], vec![pending(&decided)]),
            (
                vec![one.clone(), two.clone()],
                vec![two.clone(), three.clone()],
                vec![WaitingChange::Removed(one.extraction.to_string()), pending(&three)],
            ),
        ] {
            assert_eq!(changes(&before, &after), expected);
        }
    }
}
