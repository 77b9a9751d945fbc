//! What waits for a decision that the caller may take, across threads.
//!
//! Owners tell of what waits in a store that may be late or lose it: it says where to look, in which order, and who may decide. The
//! thread says whether it is so.

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
use crate::filter;
use crate::page::{Asked, By, Listing};
use crate::serve::Gateway;

/// States that are read at once.
const PAGE: usize = 128;
/// Pages of states that are looked through for one answer: an organization may have many that are for others. The next one goes
/// on from there.
const PAGES_MAX: usize = 32;
/// Threads that are asked at once.
const ASKED_AT_ONCE: usize = 16;
/// Bytes of one answer, unless a single turn is larger.
const ANSWER_BYTES: usize = 3 * 1024 * 1024;

/// Turns that a stream follows.
const FOLLOWED_MAX: usize = 1_000;
/// How often a stream looks.
const EVERY: Duration = Duration::from_secs(1);
/// Each so many looks a stream asks also those threads of which nothing new was told.
const THOROUGH: u32 = 30;
/// After so long without a change a stream says that it is there.
const QUIET: Duration = Duration::from_secs(30);

/// What was found, and from where to go on.
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
                for change in followed.look().await? {
                    told_at = told_at.map(|_| Instant::now());
                    yield v1::WatchPendingApprovalsResponse { change: Some(change) };
                }
                if followed.passes > 0 && told_at.is_none_or(|at: Instant| at.elapsed() >= QUIET) {
                    told_at = Some(Instant::now());
                    yield v1::WatchPendingApprovalsResponse { change: Some(Change::CaughtUp(v1::CaughtUp {})) };
                }
                // A drain does not wait for what never ends.
                let drains = tokio::time::timeout(EVERY, begin.cancelled()).await.is_ok();
                if drains {
                    Err::<(), Error>(draining())?;
                }
            }
        };
        Ok(streamed(changes, self.event_limits(), self.cut.clone()))
    }
}

impl Gateway {
    /// At most `size` turns that wait for this principal, of this asker or of everybody, those that wait longest first. Those that are `known` to wait as they
    /// are told are not asked again.
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
            let mut judged = futures::stream::iter(judged).buffered(ASKED_AT_ONCE);
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

    /// Whether a turn waits as it was told: the very pause.
    async fn stands(&self, turn: &SharedTurn) -> Result<bool> {
        let header = self.stores.threads.header(&turn.org, &turn.turn.thread).await?;
        let open = header.and_then(|header| header.open_turn).filter(|open| open.number == turn.turn.number);
        let same = open.is_some_and(|open| open.phase == Phase::Paused && open.expires_at == turn.expires_at);
        Ok(same && turn.expires_at.is_some_and(|end| self.environment.now() < end))
    }
}

/// What a stream has told. Where an organization has more that waits than one look reads, a look goes on where the one before
/// ended; what waits elsewhere stands as it was told.
struct Followed {
    gateway: Arc<Gateway>,
    principal: Principal,
    asker: Option<UserId>,
    told: BTreeMap<String, SharedTurn>,
    /// Where the next look begins; none: at the front.
    from: Option<TurnCursor>,
    /// How often all that waits was looked through.
    passes: u32,
}

impl Followed {
    /// What has changed since the last look.
    async fn look(&mut self) -> Result<Vec<Change>> {
        let thorough = self.passes.is_multiple_of(THOROUGH);
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

    /// A turn that was told and is not listed any more, as it is now if it still waits: the list may have been lost.
    async fn still_waits(&self, told: &SharedTurn) -> Result<Option<SharedTurn>> {
        let now = self.gateway.turns.get(&told.org, &told.turn).await?.unwrap_or_else(|| told.clone());
        let waits = now.waits_for(&self.principal) && self.gateway.stands(&now).await?;
        Ok(waits.then_some(now))
    }
}

/// Whether a turn has its place behind one and not behind another; to the millisecond, as the store may order them.
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
        waits_since: turn.since.map(time::to_proto),
        expires_at: turn.expires_at.map(time::to_proto),
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
