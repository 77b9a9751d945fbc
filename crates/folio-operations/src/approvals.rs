//! Pending approvals of the caller, across threads.
//!
//! Owners publish their pending turns to a shared index. The index may be late, lose entries or contain wrong ones: it is
//! a hint of the threads to read, and of their order. Whatever a caller receives is read from the header and the journal
//! of the thread.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use folio_history::TurnRecord;
use folio_history::event::CallView;
use folio_history::journal::Entry;
use folio_history::thread::{Phase, ThreadHeader};
use folio_resources::policy::Approver;
use folio_storage::{REPUBLISH_INTERVAL, SharedTurn, ThreadStore, TurnCursor};
use folio_types::page::Order;
use folio_types::{DocumentId, Error, Incarnation, Result, Role, Timestamp, TurnId, UserId, limits};
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
use crate::pending_pollers::{READ_ENTRIES, Window};
use crate::shared_poller::KeepAlive;

const THREADS_AT_ONCE: usize = 16;
/// Number of journal entries of the first read of a turn, which is doubled for each further read.
const TURN_ENTRIES_MIN: u64 = 8;
/// Maximum number of journal entries of one read.
// proto: none "bounds a read"
const TURN_ENTRIES_MAX: u64 = 128;
/// Time after a loss of data from which the index is complete: the owners have published the pending turns again.
const REPUBLISHED_AFTER: Duration = Duration::from_secs(REPUBLISH_INTERVAL.as_secs() + 60);

/// Maximum number of turns that a stream follows.
// proto: WatchPendingApprovalsResponse "at most {} turns"
// proto: WatchInboxResponse "at most {} approvals"
const FOLLOWED_MAX: usize = 1_000;

/// A turn that waits for a decision that the caller may make.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PendingApproval {
    pub turn: TurnId,
    /// The user that started the turn.
    pub user: UserId,
    /// The user that owns the thread.
    pub owner: UserId,
    /// The approvers of the undecided calls, without duplicates.
    pub approvers: Vec<Approver>,
    /// The calls of the pending round, including those that other users decide on.
    pub calls: Vec<CallView>,
    /// Start of the pause.
    pub paused_at: Option<Timestamp>,
    /// Expiry of the approval: from this time, decisions are refused.
    pub expires_at: Option<Timestamp>,
    /// The documents of the thread. Empty in an approval of the index, which is only counted.
    pub documents: Vec<DocumentId>,
}

impl From<SharedTurn> for PendingApproval {
    fn from(turn: SharedTurn) -> Self {
        Self {
            turn: turn.turn,
            user: turn.requester,
            owner: turn.user,
            approvers: turn.approvers,
            calls: turn.pending,
            paused_at: turn.paused_at,
            expires_at: turn.expires_at,
            documents: Vec::new(),
        }
    }
}

/// A page of pending approvals.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingApprovals {
    pub page: ListPage<PendingApproval>,
    /// True if the index may lack turns, because it lost its data, or was unavailable, a short time ago.
    pub is_incomplete: bool,
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
    type Output = PendingApprovals;

    async fn run(self, context: &Context) -> Result<PendingApprovals> {
        let requester = requester(&self.list.filter)?;
        let principal = context.principal();
        let scope = ["pending approvals", principal.org.as_str(), principal.user.as_str()];
        let keys = SortKeys::Ascending("create_time");
        let listing = Listing::new(&self.list, &scope, keys, Order::Oldest, limits::PAGE_SIZE_MAX)?;
        // Read before the index, so that a loss during the read is not missed.
        let is_incomplete = is_index_incomplete(context).await?;
        let page = listing
            .scan(READ_ENTRIES, None, async |scan: ScanRead<Position>| {
                let after = scan.after.map(|position| position.0);
                // The entries behind a complete page are only counted.
                let is_checked = !scan.is_page_complete;
                let read = read_entries(context, requester.as_ref(), after, scan.limit, is_checked).await?;
                Ok(read.into_iter().map(|(cursor, approval)| (Position(cursor), approval)).collect())
            })
            .await?;
        Ok(PendingApprovals { page, is_incomplete })
    }
}

/// Reads index entries after a position, each with the approval that waits for the caller, if any. If `is_checked` is false, the
/// threads are not read, and a returned approval may have been decided since.
pub(crate) async fn read_entries(
    context: &Context,
    requester: Option<&UserId>,
    after: Option<TurnCursor>,
    limit: usize,
    is_checked: bool,
) -> Result<Vec<(TurnCursor, Option<PendingApproval>)>> {
    let known = |entry: &SharedTurn| (!is_checked).then(|| entry.clone().into());
    let read = context.open_turns().waiting(&context.principal().org, requester, after.as_ref(), limit).await?;
    let read = check(context, requester, read, known).await?;
    let (mut entries, mut last) = (Vec::new(), after);
    for (entry, approval) in read {
        // The pause of an entry may have ended since it was indexed.
        last = entry.cursor().or(last);
        entries.extend(last.clone().map(|last| (last, approval)));
    }
    Ok(entries)
}

/// Counts the index entries that wait for the caller, up to about `max`. The threads are not read.
pub(crate) async fn count(context: &Context, max: usize) -> Result<u64> {
    let (mut after, mut counted) = (None, 0_usize);
    for _ in 0..=max / READ_ENTRIES {
        let read = read_entries(context, None, after, READ_ENTRIES, false).await?;
        counted = counted.saturating_add(read.iter().filter(|(_, approval)| approval.is_some()).count());
        let is_last = read.len() < READ_ENTRIES;
        after = read.into_iter().next_back().map(|(cursor, _)| cursor);
        if is_last || counted >= max {
            break;
        }
    }
    Ok(counted as u64)
}

/// Returns true if owners may not have published all pending turns again since the shared store lost its data or was
/// unavailable.
pub(crate) async fn is_index_incomplete(context: &Context) -> Result<bool> {
    match context.nodes() {
        Some(nodes) => Ok(nodes.nodes().await?.available_for < REPUBLISHED_AFTER),
        None => Ok(false),
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
        Ok(watch(context, requester(&self.filter)?))
    }
}

/// Streams the changes of the turns that wait for the caller.
pub(crate) fn watch(context: &Context, requester: Option<UserId>) -> BoxStream<'static, Result<PendingChange>> {
    let mut windows = context.pending_windows();
    let mut watch = PendingStream::new(context.clone(), requester);
    let changes = async_stream::try_stream! {
        let mut keep_alive = KeepAlive::default();
        loop {
            let window = windows.next().await?;
            if !watch.is_applied(&window) {
                let permit = watch.context.poll_permit().await?;
                let changes = watch.apply(&window).await?;
                // A caller that does not read must not occupy the permit.
                drop(permit);
                for change in changes {
                    keep_alive.on_change(Instant::now());
                    yield change;
                }
            }
            if watch.is_complete && keep_alive.is_due(Instant::now()) {
                yield PendingChange::CaughtUp;
            }
        }
    };
    changes.boxed()
}

/// Returns index entries, each with the approval that waits for the caller. None: it does not wait for the caller. The
/// thread of an entry is not read if `known` returns the approval of the entry.
async fn check(
    context: &Context,
    requester: Option<&UserId>,
    entries: Vec<SharedTurn>,
    known: impl Fn(&SharedTurn) -> Option<PendingApproval>,
) -> Result<Vec<(SharedTurn, Option<PendingApproval>)>> {
    let checks = entries.into_iter().map(|entry| {
        let known = known(&entry);
        async move {
            let approval = match known {
                _ if !entry.is_waiting_for(context.principal()) => None,
                Some(known) => Some(known),
                None => read_approval(context, &entry.turn).await?,
            };
            let is_wanted = |approval: &PendingApproval| requester.is_none_or(|user| approval.user == *user);
            Ok((entry, approval.filter(is_wanted)))
        }
    });
    futures::stream::iter(checks).buffered(THREADS_AT_ONCE).try_collect().await
}

/// Returns the approval that a turn waits for, by its thread. None: the turn does not wait for the caller.
async fn read_approval(context: &Context, turn: &TurnId) -> Result<Option<PendingApproval>> {
    let (principal, threads) = (context.principal(), &context.stores().threads);
    let Some(header) = threads.header(&principal.org, &turn.thread).await? else { return Ok(None) };
    let open = header.open_turn.as_ref().filter(|open| open.number == turn.number && open.phase == Phase::Paused);
    let is_open = open.is_some_and(|open| open.expires_at.is_some_and(|end| context.environment().now() < end));
    if !is_open {
        return Ok(None);
    }
    let record = read_turn(&**threads, &header, turn.number).await?;
    // The owner is not part of an approval.
    let node = header.owner.clone().unwrap_or_else(|| Incarnation::derive(&[]));
    let current = SharedTurn::of(&header, record.as_ref(), node);
    let documents = header.documents;
    Ok(current.is_waiting_for(principal).then(|| PendingApproval { documents, ..current.into() }))
}

/// Reads the newest turn of a thread from the end of the journal. None: the journal does not contain the turn.
pub(crate) async fn read_turn(
    threads: &dyn ThreadStore,
    header: &ThreadHeader,
    number: u32,
) -> Result<Option<TurnRecord>> {
    let (mut entries, mut end, mut count) = (Vec::new(), header.entries, TURN_ENTRIES_MIN);
    loop {
        let from = end.saturating_sub(count);
        let limit = usize::try_from(end.saturating_sub(from)).unwrap_or(usize::MAX);
        let read = threads.entries(&header.org, &header.id, from, limit).await?;
        let read = read.into_iter().filter(|(position, _)| *position < end).map(|(_, entry)| entry);
        entries = read.chain(entries).collect::<Vec<Entry>>();
        let is_start = |entry: &Entry| matches!(entry, Entry::Accepted(accepted) if accepted.turn == number);
        if let Some(start) = entries.iter().rposition(is_start) {
            let mut turn = entries.split_off(start).into_iter();
            let Some(Entry::Accepted(accepted)) = turn.next() else { return Ok(None) };
            let mut record = TurnRecord::new(*accepted);
            turn.for_each(|entry| record.push(entry));
            return Ok(Some(record));
        }
        if from == 0 {
            return Ok(None);
        }
        (end, count) = (from, count.saturating_mul(2).min(TURN_ENTRIES_MAX));
    }
}

/// A turn that a stream reported.
#[derive(Debug, Clone)]
struct Reported {
    /// The index entry for which the thread was read.
    entry: SharedTurn,
    approval: PendingApproval,
}

/// The state of one stream of changes. A window of the index changes only the reported turns between its positions.
struct PendingStream {
    context: Context,
    requester: Option<UserId>,
    reported: BTreeMap<TurnId, Reported>,
    /// Last position of the newest window.
    position: Option<TurnCursor>,
    /// True if the stream received each window since the beginning of the index.
    is_contiguous: bool,
    /// True if the stream reported the whole index once, or the maximum number of turns.
    is_complete: bool,
    /// Revision of the last applied window, and the time from which it must be applied again. None: the next window must be applied.
    applied: Option<(u64, Timestamp)>,
}

impl PendingStream {
    fn new(context: Context, requester: Option<UserId>) -> Self {
        let reported = BTreeMap::new();
        let (is_contiguous, is_complete, applied) = (false, false, None);
        Self { context, requester, reported, position: None, is_contiguous, is_complete, applied }
    }

    /// Returns true if the stream applied an equal window, and must read no thread again.
    fn is_applied(&self, window: &Window) -> bool {
        let is_recent = |(revision, until): (u64, Timestamp)| {
            revision == window.revision && self.context.environment().now() < until
        };
        !window.is_outdated && self.applied.is_some_and(is_recent)
    }

    async fn apply(&mut self, window: &Window) -> Result<Vec<PendingChange>> {
        let mut found = self.read(window).await?;
        let ids: BTreeSet<TurnId> = found.iter().map(|found| found.entry.turn.clone()).collect();
        let (mut reported, mut changes, mut is_missing) = (BTreeMap::new(), Vec::new(), false);
        for (id, turn) in self.reported.iter().filter(|(id, _)| !ids.contains(*id)) {
            if !is_between(&turn.entry, window.from.as_ref(), window.until.as_ref()) {
                reported.insert(id.clone(), turn.clone());
                continue;
            }
            match self.current(turn).await? {
                Some(turn) => {
                    is_missing = true;
                    found.push(turn);
                }
                None => changes.push(PendingChange::Removed(id.clone())),
            }
        }
        found.sort_by_key(|found| found.approval.paused_at);
        let (known, mut new): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|found| self.reported.contains_key(&found.entry.turn));
        new.truncate(FOLLOWED_MAX.saturating_sub(reported.len().saturating_add(known.len())));
        for turn in known.into_iter().chain(new) {
            let id = turn.entry.turn.clone();
            if self.reported.get(&id).is_none_or(|before| before.approval != turn.approval) {
                changes.push(PendingChange::Pending(Box::new(turn.approval.clone())));
            }
            reported.insert(id, turn);
        }
        self.is_contiguous = window.from.is_none() || (self.is_contiguous && window.from == self.position);
        self.is_complete |= (self.is_contiguous && window.until.is_none()) || reported.len() >= FOLLOWED_MAX;
        // The index does not report a change of a turn that it lacks, nor the end of a pause.
        let until = reported
            .values()
            .map(|turn| turn.approval.expires_at)
            .try_fold(Timestamp::MAX, |until, end| Some(until.min(end?)));
        self.applied = until.filter(|_| !is_missing).map(|until| (window.revision, until));
        (self.reported, self.position) = (reported, window.until.clone());
        Ok(changes)
    }

    /// Returns the turns of a window that wait for the caller. The threads of as many new turns are read as the stream may
    /// still report.
    async fn read(&self, window: &Window) -> Result<Vec<Reported>> {
        let now = self.context.environment().now();
        let known = |entry: &SharedTurn| {
            let reported = self.reported.get(&entry.turn).filter(|reported| reported.entry == *entry)?;
            let is_valid = !window.is_outdated && reported.approval.expires_at.is_some_and(|end| now < end);
            is_valid.then(|| reported.approval.clone())
        };
        let (principal, requester) = (self.context.principal(), self.requester.as_ref());
        let mut new_max = FOLLOWED_MAX.saturating_sub(self.reported.len());
        let entries = window.entries.iter().filter(|entry: &&SharedTurn| {
            let is_wanted = requester.is_none_or(|user| entry.requester == *user) && entry.is_waiting_for(principal);
            let is_new = is_wanted && !self.reported.contains_key(&entry.turn);
            let is_read = is_wanted && (!is_new || new_max > 0);
            new_max -= usize::from(is_new && is_read);
            is_read
        });
        let entries: Vec<SharedTurn> = entries.cloned().collect();
        let read = check(&self.context, requester, entries, known).await?;
        Ok(read.into_iter().filter_map(|(entry, approval)| Some(Reported { entry, approval: approval? })).collect())
    }

    /// Returns the current state of a reported turn that is missing in the index, if the turn still waits: the index
    /// may have lost it.
    async fn current(&self, reported: &Reported) -> Result<Option<Reported>> {
        let approval = read_approval(&self.context, &reported.entry.turn).await?;
        Ok(approval.map(|approval| Reported { entry: reported.entry.clone(), approval }))
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
