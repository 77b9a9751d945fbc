//! Pending approvals of the caller, across threads.
//!
//! Owners publish their pending turns to a shared index. The index may be late or lose entries: it is a hint of the
//! threads to read, their order and the approvers. The thread header is authoritative.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use folio_history::event::CallView;
use folio_history::thread::Phase;
use folio_storage::{SharedTurn, TurnCursor};
use folio_types::page::Order;
use folio_types::{Error, Result, Role, Timestamp, TurnId, UserId, limits};
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;
use tokio::time::Instant;

use crate::context::Context;
use crate::conversations::SERVICE;
use crate::declaration::Declaration;
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, ScanRead, SortKeys};
use crate::operation::Operation;

/// Number of index entries of one read.
const READ_ENTRIES: usize = 128;
/// Maximum number of index reads of one poll, because an organization may have many entries for other users. The next
/// poll continues at the last position.
// proto: none "bounds the work of a poll"
const READS_MAX: usize = 32;
const HEADERS_AT_ONCE: usize = 16;

/// Maximum number of turns that a stream follows.
// proto: WatchPendingApprovalsResponse "at most {} turns"
const FOLLOWED_MAX: usize = 1_000;
/// Interval at which a stream reads the index.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of polls after which a stream also re-reads the threads of unchanged entries.
const POLLS_PER_FULL_CHECK: u32 = 30;
/// Time without a change after which a stream sends a keep-alive.
// proto: WatchPendingApprovalsResponse.caught_up "after {} s"
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A turn that waits for a decision that the caller may make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingApproval {
    pub turn: TurnId,
    /// The user that started the turn.
    pub user: UserId,
    /// The calls of the pending round, including those that other users decide on.
    pub calls: Vec<CallView>,
    /// Start of the pause.
    pub paused_at: Option<Timestamp>,
    /// Expiry of the approval: from this time, decisions are refused.
    pub expires_at: Option<Timestamp>,
}

impl From<SharedTurn> for PendingApproval {
    fn from(turn: SharedTurn) -> Self {
        let user = turn.requester.clone();
        Self { turn: turn.turn, user, calls: turn.pending, paused_at: turn.paused_at, expires_at: turn.expires_at }
    }
}

/// Lists the turns that wait for a decision of the caller, the longest pending first. Filter: `user`, the user that
/// started the turn.
///
/// The total is the number of index entries; thread headers are not read for it.
#[derive(Debug, Clone, Serialize)]
pub struct ListPendingApprovals {
    /// The only order is `create_time`, the start of the pause.
    pub list: ListRequest,
}

impl Operation for ListPendingApprovals {
    // A viewer cannot decide an approval.
    const DECLARATION: Declaration = SERVICE.read("ListPendingApprovals").role(Role::Member);
    type Output = ListPage<PendingApproval>;

    async fn run(self, context: &Context) -> Result<ListPage<PendingApproval>> {
        let requester = requester(&self.list.filter)?;
        let principal = context.principal();
        let scope = ["pending approvals", principal.org.as_str(), principal.user.as_str()];
        let keys = SortKeys::Ascending("create_time");
        let listing = Listing::new(&self.list, &scope, keys, Order::Oldest, limits::PAGE_SIZE_MAX)?;
        listing
            .scan(READ_ENTRIES, async |scan: ScanRead<Position>| {
                let after = scan.after.map(|position| position.0);
                let read =
                    read_index(context, requester.as_ref(), after.as_ref(), scan.limit, |_| scan.is_page_complete)
                        .await?;
                let (mut entries, mut last) = (Vec::new(), after);
                for (turn, is_waiting) in read {
                    // The pause of an entry may have ended since it was indexed.
                    last = turn.cursor().or(last);
                    if let Some(position) = last.clone().map(Position) {
                        entries.push((position, is_waiting.then(|| turn.into())));
                    }
                }
                Ok(entries)
            })
            .await
    }
}

/// A position in the index, as a part of a page token.
#[derive(Debug, Clone)]
struct Position(TurnCursor);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.paused_at.as_nanosecond(), self.0.turn)
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = || Error::invalid_field("page_token", "is malformed");
        let (since, turn) = text.split_once(' ').ok_or_else(malformed)?;
        let since = since.parse().ok().and_then(|since| Timestamp::from_nanosecond(since).ok());
        Ok(Self(TurnCursor { paused_at: since.ok_or_else(malformed)?, turn: turn.parse()? }))
    }
}

/// Streams the turns that wait for the caller, and then their changes, within seconds. The stream does not end by
/// itself.
#[derive(Debug, Clone, Serialize)]
pub struct WatchPendingApprovals {
    /// Same field as the filter of [`ListPendingApprovals`].
    pub filter: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingChange {
    /// A turn is pending, or its pending state changed.
    Pending(Box<PendingApproval>),
    /// A turn no longer waits for the caller.
    Removed(TurnId),
    /// The initial list is complete. Also sent as a keep-alive after 30 s without a change.
    CaughtUp,
}

impl Operation for WatchPendingApprovals {
    const DECLARATION: Declaration = SERVICE.read("WatchPendingApprovals").role(Role::Member).long();
    type Output = BoxStream<'static, Result<PendingChange>>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        let requester = requester(&self.filter)?;
        let mut watch =
            PendingStream { context: context.clone(), requester, reported: BTreeMap::new(), from: None, passes: 0 };
        let changes = async_stream::try_stream! {
            let mut caught_up_at: Option<Instant> = None;
            loop {
                for change in watch.poll().await? {
                    caught_up_at = caught_up_at.map(|_| Instant::now());
                    yield change;
                }
                if watch.passes > 0 && caught_up_at.is_none_or(|at| at.elapsed() >= KEEP_ALIVE) {
                    caught_up_at = Some(Instant::now());
                    yield PendingChange::CaughtUp;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        Ok(changes.boxed())
    }
}

/// Reads index entries after a position, each with a flag that is true if the entry waits for the caller. The thread
/// header of an entry is not read if `is_known` returns true for the entry.
async fn read_index(
    context: &Context,
    requester: Option<&UserId>,
    after: Option<&TurnCursor>,
    limit: usize,
    is_known: impl Fn(&SharedTurn) -> bool,
) -> Result<Vec<(SharedTurn, bool)>> {
    let principal = context.principal();
    let read = context.open_turns().waiting(&principal.org, requester, after, limit).await?;
    let checks = read.into_iter().map(|turn| {
        let is_known = is_known(&turn);
        async move {
            let is_waiting = turn.is_waiting_for(principal) && (is_known || is_confirmed(context, &turn).await?);
            Ok((turn, is_waiting))
        }
    });
    futures::stream::iter(checks).buffered(HEADERS_AT_ONCE).try_collect().await
}

/// Returns true if the thread header confirms an entry: the same turn is paused until the same time.
async fn is_confirmed(context: &Context, turn: &SharedTurn) -> Result<bool> {
    let header = context.stores().threads.header(&turn.org, &turn.turn.thread).await?;
    let open = header.and_then(|header| header.open_turn).filter(|open| open.number == turn.turn.number);
    let is_same = open.is_some_and(|open| open.phase == Phase::Paused && open.expires_at == turn.expires_at);
    Ok(is_same && turn.expires_at.is_some_and(|end| context.environment().now() < end))
}

/// The state of one stream of changes. If an organization has more entries than one poll reads, the next poll continues
/// there; the other reported turns stay unchanged.
struct PendingStream {
    context: Context,
    requester: Option<UserId>,
    reported: BTreeMap<TurnId, SharedTurn>,
    /// Position at which the next poll starts. None: the beginning.
    from: Option<TurnCursor>,
    /// Number of complete passes through the index.
    passes: u32,
}

impl PendingStream {
    async fn poll(&mut self) -> Result<Vec<PendingChange>> {
        let (mut found, next) = self.read().await?;
        let ids: BTreeSet<TurnId> = found.iter().map(|turn| turn.turn.clone()).collect();
        let (mut reported, mut changes) = (BTreeMap::new(), Vec::new());
        for (id, turn) in self.reported.iter().filter(|(id, _)| !ids.contains(*id)) {
            if !is_between(turn, self.from.as_ref(), next.as_ref()) {
                reported.insert(id.clone(), turn.clone());
                continue;
            }
            match self.current(turn).await? {
                Some(turn) => found.push(turn),
                None => changes.push(PendingChange::Removed(id.clone())),
            }
        }
        found.sort_by_key(|turn| turn.paused_at);
        let (known, mut new): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|turn| self.reported.contains_key(&turn.turn));
        new.truncate(FOLLOWED_MAX.saturating_sub(reported.len().saturating_add(known.len())));
        for turn in known.into_iter().chain(new) {
            if self.reported.get(&turn.turn) != Some(&turn) {
                changes.push(PendingChange::Pending(Box::new(turn.clone().into())));
            }
            reported.insert(turn.turn.clone(), turn);
        }
        if next.is_none() || reported.len() >= FOLLOWED_MAX {
            self.passes = self.passes.saturating_add(1);
        }
        (self.reported, self.from) = (reported, next);
        Ok(changes)
    }

    /// Reads the turns that wait for the caller, starting after [`PendingStream::from`]. Also returns the position at
    /// which the next poll continues. None: the end of the index was reached.
    async fn read(&self) -> Result<(Vec<SharedTurn>, Option<TurnCursor>)> {
        let is_full_check = self.passes.is_multiple_of(POLLS_PER_FULL_CHECK);
        let now = self.context.environment().now();
        let is_known = |turn: &SharedTurn| {
            let is_same = self.reported.get(&turn.turn) == Some(turn);
            is_same && !is_full_check && turn.expires_at.is_some_and(|end| now < end)
        };
        let (mut turns, mut after) = (Vec::new(), self.from.clone());
        for _ in 0..READS_MAX {
            let read =
                read_index(&self.context, self.requester.as_ref(), after.as_ref(), READ_ENTRIES, is_known).await?;
            let is_last = read.len() < READ_ENTRIES;
            for (turn, is_waiting) in read {
                if is_waiting && turns.len() == FOLLOWED_MAX {
                    return Ok((turns, after));
                }
                after = turn.cursor().or(after);
                turns.extend(is_waiting.then_some(turn));
            }
            if is_last {
                return Ok((turns, None));
            }
        }
        Ok((turns, after))
    }

    /// Returns the current state of a reported turn that is missing in the index, if the turn still waits: the index
    /// may have lost it.
    async fn current(&self, reported: &SharedTurn) -> Result<Option<SharedTurn>> {
        let published = self.context.open_turns().get(&reported.org, &reported.turn).await?;
        let turn = published.unwrap_or_else(|| reported.clone());
        let is_waiting = turn.is_waiting_for(self.context.principal()) && is_confirmed(&self.context, &turn).await?;
        Ok(is_waiting.then_some(turn))
    }
}

/// Returns true if a turn is after `from` and not after `until` in the index, which may order by milliseconds.
fn is_between(turn: &SharedTurn, from: Option<&TurnCursor>, until: Option<&TurnCursor>) -> bool {
    let key = |cursor: &TurnCursor| (cursor.paused_at.as_millisecond(), cursor.turn.to_string());
    let Some(turn) = turn.cursor().as_ref().map(key) else { return true };
    from.is_none_or(|from| turn > key(from)) && until.is_none_or(|until| turn <= key(until))
}

fn requester(text: &str) -> Result<Option<UserId>> {
    let mut user = None;
    for condition in filter::parse(text)? {
        match condition.field.as_str() {
            "user" => filter::set_once(&mut user, &condition, condition.id()?)?,
            _ => return Err(filter::unknown_field(&condition, "user")),
        }
    }
    Ok(user)
}
