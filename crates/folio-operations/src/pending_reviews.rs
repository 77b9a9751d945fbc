//! Extractions that wait for a reviewer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use folio_resources::{CreationPeriod, Extraction, ExtractionFilter, FieldDecision, leaves};
use folio_storage::ResourceStore;
use folio_types::page::{Order, PageRequest};
use folio_types::{DocumentId, ExtractionId, OrgId, PromptRevId, Result, SchemaRevId, Timestamp, UserId};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde::Serialize;
use tokio::time::Instant;

use crate::context::Context;
use crate::followed_list::{self, FollowedList};
use crate::shared_poller::{KeepAlive, Polls, Schedule, SharedPollers};

/// Maximum number of extractions that a stream follows.
// proto: WatchInboxResponse "at most {} field reviews"
const FOLLOWED_MAX: usize = 100;
/// Maximum number of extractions of one read.
// proto: none "bounds a read"
const READ_MAX: usize = 100;
/// Interval at which the extractions of an organization are read.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// An extraction that waits for a reviewer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingReview {
    pub extraction: ExtractionId,
    pub document: DocumentId,
    pub prompt: PromptRevId,
    /// None: the prompt has no schema.
    pub schema: Option<SchemaRevId>,
    /// User that requested the review. None: the extraction waits because of decisions about its values.
    pub requested_by: Option<UserId>,
    /// Number of values that contain no other values.
    pub values: usize,
    pub approved: usize,
    pub rejected: usize,
    /// Time of creation of the extraction.
    pub created_at: Timestamp,
}

impl From<&Extraction> for PendingReview {
    fn from(extraction: &Extraction) -> Self {
        Self {
            extraction: extraction.id.clone(),
            document: extraction.document.clone(),
            prompt: extraction.prompt.clone(),
            schema: extraction.schema.clone(),
            requested_by: extraction.fields.requested_by.clone(),
            values: leaves(extraction.current()).len(),
            approved: extraction.fields.decided(FieldDecision::Approved),
            rejected: extraction.fields.decided(FieldDecision::Rejected),
            created_at: extraction.created_at,
        }
    }
}

/// A change of the extractions that wait for a reviewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReviewChange {
    /// An extraction waits, or its decisions changed.
    Pending(PendingReview),
    /// An extraction no longer waits, or is no longer one of the followed extractions.
    Removed(ExtractionId),
    /// The initial list is complete. Also sent as a keep-alive.
    CaughtUp,
}

/// Returns the filter of the extractions that wait for a reviewer.
fn waiting() -> ExtractionFilter {
    ExtractionFilter { is_waiting_for_review: true, ..ExtractionFilter::default() }
}

/// Returns at most `limit` extractions that wait for a reviewer, the oldest first. The list starts after the extraction `after`,
/// which its time of creation and its id identify. A list with fewer extractions than `limit` is the last page.
pub(crate) async fn read(
    store: &ResourceStore<Extraction>,
    org: &OrgId,
    after: Option<&(Timestamp, ExtractionId)>,
    limit: usize,
) -> Result<Vec<PendingReview>> {
    // The lists of the stores are ordered by microseconds, and then by ids.
    let position = |at: &Timestamp, id: &ExtractionId| (at.as_microsecond(), id.to_string());
    let created = after.map(|(at, _)| {
        let start = Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(*at);
        CreationPeriod { start: Some(start), end: None }
    });
    let filter = ExtractionFilter { created, ..waiting() };
    let size = u32::try_from(limit.min(READ_MAX)).unwrap_or_default();
    let mut request = PageRequest { size, order: Order::Oldest, ..PageRequest::default() };
    let is_after =
        |found: &&Extraction| after.is_none_or(|(at, id)| position(&found.created_at, &found.id) > position(at, id));
    let mut pending = Vec::new();
    loop {
        let page = store.list(org, &filter, &request).await?;
        pending.extend(page.items.iter().filter(is_after).map(PendingReview::from));
        request.token = page.next;
        if pending.len() >= limit || request.token.is_none() {
            pending.truncate(limit);
            return Ok(pending);
        }
    }
}

/// Returns the number of extractions that wait for a reviewer. Cost: a list with one extraction.
pub(crate) async fn count(store: &ResourceStore<Extraction>, org: &OrgId) -> Result<u64> {
    let request = PageRequest { size: 1, ..PageRequest::default() };
    Ok(store.list_versions(org, &waiting(), &request).await?.total)
}

/// Subscribes to the oldest extractions of an organization that wait for a reviewer.
pub(crate) fn subscribe(
    pollers: &SharedPollers<OrgId, FollowedList<PendingReview>>,
    org: &OrgId,
    store: ResourceStore<Extraction>,
    random: u128,
) -> Polls<FollowedList<PendingReview>> {
    let of_poller = org.clone();
    let read = move |last: Option<Arc<FollowedList<PendingReview>>>| {
        let (store, org) = (store.clone(), of_poller.clone());
        async move {
            let last = last.as_deref().map(Vec::as_slice).unwrap_or_default();
            let (filter, oldest) = (waiting(), (Order::Oldest, FOLLOWED_MAX));
            let convert = |extraction: Extraction| PendingReview::from(&extraction);
            followed_list::read(&store, &org, &filter, oldest, last, convert).await
        }
    };
    pollers.subscribe(org, Schedule { interval: POLL_INTERVAL, random }, read)
}

/// Streams the changes of the oldest extractions that wait for a reviewer.
pub(crate) fn watch(context: &Context) -> BoxStream<'static, Result<ReviewChange>> {
    let mut polls = context.pending_reviews();
    let changes = async_stream::try_stream! {
        let mut reported = Vec::new();
        let mut keep_alive = KeepAlive::default();
        loop {
            let poll = polls.next().await?;
            let current: Vec<PendingReview> = poll.iter().map(|found| found.item.clone()).collect();
            for change in changes(&reported, &current) {
                keep_alive.on_change(Instant::now());
                yield change;
            }
            reported = current;
            if keep_alive.is_due(Instant::now()) {
                yield ReviewChange::CaughtUp;
            }
        }
    };
    changes.boxed()
}

/// Returns the changes between two polls.
fn changes(before: &[PendingReview], after: &[PendingReview]) -> Vec<ReviewChange> {
    let by_id = |list: &[PendingReview]| -> BTreeMap<ExtractionId, PendingReview> {
        list.iter().map(|review| (review.extraction.clone(), review.clone())).collect()
    };
    let (old, new) = (by_id(before), by_id(after));
    let removed = before.iter().map(|review| &review.extraction).filter(|id| !new.contains_key(*id));
    let removed = removed.map(|id| ReviewChange::Removed(id.clone()));
    let changed = after.iter().filter(|review| old.get(&review.extraction) != Some(*review));
    removed.chain(changed.map(|review| ReviewChange::Pending(review.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use folio_types::{PromptId, SchemaId};

    use super::*;

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
    fn the_changes_between_polls_are_new_changed_and_removed_reviews() {
        let (one, two, three) = (review("one", 0), review("two", 0), review("three", 0));
        let pending = |review: &PendingReview| ReviewChange::Pending(review.clone());
        let decided = review("two", 1);
        for (before, after, expected) in [
            (vec![], vec![], vec![]),
            (vec![], vec![one.clone(), two.clone()], vec![pending(&one), pending(&two)]),
            (vec![one.clone(), two.clone()], vec![one.clone(), two.clone()], vec![]),
            (vec![one.clone(), two.clone()], vec![one.clone(), decided.clone()], vec![pending(&decided)]),
            (
                vec![one.clone(), two.clone()],
                vec![two.clone(), three.clone()],
                vec![ReviewChange::Removed(one.extraction.clone()), pending(&three)],
            ),
        ] {
            assert_eq!(changes(&before, &after), expected);
        }
    }
}
