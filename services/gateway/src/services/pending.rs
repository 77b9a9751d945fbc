//! Pending approvals of the caller, across threads.
//!
//! Owners publish their pending turns to a shared index, which may be late or lose entries: it is a hint of where to look, in which
//! order, and who may decide. The thread header is authoritative.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use folio_cluster::draining;
use folio_history::thread::Phase;
use folio_proto::{time, v1};
use folio_storage::{SharedTurn, TurnCursor};
use folio_types::page::Order;
use folio_types::{Error, Principal, Reason, Result, Timestamp, UserId, limits};
use futures::{StreamExt as _, TryStreamExt as _};
use prost::Message as _;
use tokio::time::Instant;
use v1::watch_pending_approvals_response::Change;

use super::{Answer, Api, streamed};
use crate::page::{Asked, By, Listing};
use crate::serve::Gateway;
use folio_operations::filter;

/// Entries of the index in one read.
const PAGE: usize = 128;
/// Reads of the index for one response: an organization may have many entries for other users. The next page continues from there.
const PAGES_MAX: usize = 32;
/// Maximum number of thread headers that are read concurrently.
const READS_MAX: usize = 16;
/// Maximum size of a response in bytes, unless a single turn is larger.
const ANSWER_BYTES: usize = 3 * 1024 * 1024;

/// Maximum number of turns that a stream follows.
const FOLLOWED_MAX: usize = 1_000;
/// Interval at which a stream reads the index.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of polls after which a stream also re-reads the threads of unchanged entries.
const POLLS_PER_FULL_CHECK: u32 = 30;
/// Time without a change after which a stream sends a keep-alive.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Pending turns, and the position from which the next read continues. None: the end.
struct Found {
    turns: Vec<SharedTurn>,
    next: Option<TurnCursor>,
}

impl Api {
    pub(super) async fn pending_approvals(
        &self,
        principal: Principal,
        request: v1::ListPendingApprovalsRequest,
    ) -> Result<v1::ListPendingApprovalsResponse> {
        if !matches!(request.order_by.trim(), "" | "create_time") {
            return Err(Error::invalid_field("order_by", "the field is create_time"));
        }
        let asked = Asked { size: request.page_size, token: &request.page_token, skip: 0, order_by: "" };
        let asker = asker(&request.filter)?;
        let scope = ["pending approvals", principal.org.as_str(), principal.user.as_str(), &request.filter];
        let listing = Listing::read(asked, &scope, By::Created, Order::Oldest, limits::PAGE_SIZE_MAX)?;
        let after = listing.page.token.as_deref().map(read_cursor).transpose()?;
        let size = usize::try_from(listing.page.size).unwrap_or(usize::MAX);
        let found = self.gateway.waiting_for(&principal, asker.as_ref(), (after, size), |_| false).await?;
        Ok(v1::ListPendingApprovalsResponse {
            pending_approvals: found.turns.iter().map(shown).collect(),
            next_page_token: listing.next(found.next.as_ref().map(write_cursor)),
        })
    }

    pub(super) fn changes_of_pending_approvals(
        &self,
        principal: Principal,
        request: &v1::WatchPendingApprovalsRequest,
    ) -> Result<Answer<v1::WatchPendingApprovalsResponse>> {
        let (gateway, asker, begin) = (Arc::clone(&self.gateway), asker(&request.filter)?, self.begin.clone());
        let mut followed = Followed { gateway, principal, asker, told: BTreeMap::new(), from: None, passes: 0 };
        let changes = async_stream::try_stream! {
            let mut told_at = None;
            loop {
                for change in followed.poll().await? {
                    told_at = told_at.map(|_| Instant::now());
                    yield v1::WatchPendingApprovalsResponse { change: Some(change) };
                }
                if followed.passes > 0 && told_at.is_none_or(|at: Instant| at.elapsed() >= KEEP_ALIVE) {
                    told_at = Some(Instant::now());
                    yield v1::WatchPendingApprovalsResponse { change: Some(Change::CaughtUp(v1::CaughtUp {})) };
                }
                // The stream never ends by itself, so that a drain must end it.
                let drains = tokio::time::timeout(POLL_INTERVAL, begin.cancelled()).await.is_ok();
                if drains {
                    Err::<(), Error>(draining())?;
                }
            }
        };
        Ok(streamed(changes, self.event_limits(), self.cut.clone()))
    }
}

impl Gateway {
    /// Returns at most `size` turns that wait for this principal, started by `asker` or by anyone, the longest pending first. The thread
    /// header of an entry for which `known` returns true is not read again.
    async fn waiting_for(
        &self,
        principal: &Principal,
        asker: Option<&UserId>,
        (mut after, size): (Option<TurnCursor>, usize),
        known: impl Fn(&SharedTurn) -> bool,
    ) -> Result<Found> {
        let (mut turns, mut bytes) = (Vec::new(), 0usize);
        for _ in 0..PAGES_MAX {
            let told = self.turns.waiting(&principal.org, asker, after.as_ref(), PAGE).await?;
            let more = told.len() == PAGE;
            let judged = told.into_iter().map(|turn| {
                let known = known(&turn);
                async move {
                    let waits = turn.waits_for(principal) && (known || self.stands(&turn).await?);
                    Ok::<_, Error>((turn, waits))
                }
            });
            let mut judged = futures::stream::iter(judged).buffered(READS_MAX);
            while let Some((turn, waits)) = judged.try_next().await? {
                let place = turn.cursor();
                if waits {
                    let added = bytes.saturating_add(shown(&turn).encoded_len());
                    if turns.len() == size || (added > ANSWER_BYTES && !turns.is_empty()) {
                        return Ok(Found { turns, next: after });
                    }
                    bytes = added;
                    turns.push(turn);
                }
                after = place.or(after);
            }
            if !more {
                return Ok(Found { turns, next: None });
            }
        }
        Ok(Found { turns, next: after })
    }

    /// Returns true if the thread header confirms an entry: the same turn is paused until the same time.
    async fn stands(&self, turn: &SharedTurn) -> Result<bool> {
        let header = self.stores.threads.header(&turn.org, &turn.turn.thread).await?;
        let open = header.and_then(|header| header.open_turn).filter(|open| open.number == turn.turn.number);
        let same = open.is_some_and(|open| open.phase == Phase::Paused && open.expires_at == turn.expires_at);
        Ok(same && turn.expires_at.is_some_and(|end| self.environment.now() < end))
    }
}

/// The turns that a stream has reported. If an organization has more entries than one poll reads, the next poll continues there; the
/// other reported turns stay as they are.
struct Followed {
    gateway: Arc<Gateway>,
    principal: Principal,
    asker: Option<UserId>,
    told: BTreeMap<String, SharedTurn>,
    /// Position at which the next poll starts. None: the beginning.
    from: Option<TurnCursor>,
    /// Number of complete passes through the index.
    passes: u32,
}

impl Followed {
    /// Returns the changes since the last poll.
    async fn poll(&mut self) -> Result<Vec<Change>> {
        let thorough = self.passes.is_multiple_of(POLLS_PER_FULL_CHECK);
        let now = self.gateway.environment.now();
        let known = |turn: &SharedTurn| {
            let same = self.told.get(&turn.turn.to_string()) == Some(turn);
            same && !thorough && turn.expires_at.is_some_and(|end| now < end)
        };
        let looked = (self.from.clone(), FOLLOWED_MAX);
        let Found { turns: mut found, next } =
            self.gateway.waiting_for(&self.principal, self.asker.as_ref(), looked, known).await?;
        let ids: BTreeSet<String> = found.iter().map(|turn| turn.turn.to_string()).collect();
        let (mut told, mut changes) = (BTreeMap::new(), Vec::new());
        for (id, turn) in self.told.iter().filter(|(id, _)| !ids.contains(*id)) {
            if !within(turn, self.from.as_ref(), next.as_ref()) {
                told.insert(id.clone(), turn.clone());
                continue;
            }
            match self.still_waits(turn).await? {
                Some(turn) => found.push(turn),
                None => changes.push(Change::GoneTurnId(id.clone())),
            }
        }
        found.sort_by_key(|turn| turn.since);
        let (known, mut new): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|turn| self.told.contains_key(&turn.turn.to_string()));
        new.truncate(FOLLOWED_MAX.saturating_sub(told.len().saturating_add(known.len())));
        for turn in known.into_iter().chain(new) {
            let id = turn.turn.to_string();
            if self.told.get(&id) != Some(&turn) {
                changes.push(Change::PendingApproval(shown(&turn)));
            }
            told.insert(id, turn);
        }
        if next.is_none() || told.len() >= FOLLOWED_MAX {
            self.passes = self.passes.saturating_add(1);
        }
        (self.told, self.from) = (told, next);
        Ok(changes)
    }

    /// Returns the current state of a reported turn that is no longer in the index, if it still waits: the index may have lost it.
    async fn still_waits(&self, told: &SharedTurn) -> Result<Option<SharedTurn>> {
        let now = self.gateway.turns.get(&told.org, &told.turn).await?.unwrap_or_else(|| told.clone());
        let waits = now.waits_for(&self.principal) && self.gateway.stands(&now).await?;
        Ok(waits.then_some(now))
    }
}

/// Returns true if a turn is after `from` and not after `until` in the index, which may order by milliseconds.
fn within(turn: &SharedTurn, from: Option<&TurnCursor>, until: Option<&TurnCursor>) -> bool {
    let place = |cursor: &TurnCursor| (cursor.since.as_millisecond(), cursor.turn.to_string());
    let Some(here) = turn.cursor().as_ref().map(place) else { return true };
    from.is_none_or(|from| here > place(from)) && until.is_none_or(|until| here <= place(until))
}

fn asker(text: &str) -> Result<Option<UserId>> {
    let mut user = None;
    for term in filter::parse(text)? {
        match term.field.as_str() {
            "user" => filter::once(&mut user, &term, term.id()?)?,
            _ => return Err(filter::unknown(&term, "user")),
        }
    }
    Ok(user)
}

fn shown(turn: &SharedTurn) -> v1::PendingApproval {
    v1::PendingApproval {
        turn_id: turn.turn.to_string(),
        thread_id: turn.turn.thread.to_string(),
        user_id: turn.asker().to_string(),
        calls: turn.pending.iter().map(Into::into).collect(),
        pause_time: turn.since.map(time::to_proto),
        expire_time: turn.expires_at.map(time::to_proto),
    }
}

fn write_cursor(cursor: &TurnCursor) -> String {
    format!("{} {}", cursor.since.as_nanosecond(), cursor.turn)
}

fn read_cursor(text: &str) -> Result<TurnCursor> {
    let malformed = || Error::invalid_field("page_token", "is malformed").because(Reason::InvalidPageToken);
    let (since, turn) = text.split_once(' ').ok_or_else(malformed)?;
    let since = since.parse().ok().and_then(|since| Timestamp::from_nanosecond(since).ok()).ok_or_else(malformed)?;
    Ok(TurnCursor { since, turn: turn.parse().map_err(|_| malformed())? })
}
