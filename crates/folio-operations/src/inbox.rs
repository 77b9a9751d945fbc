//! The inbox: everything in an organization that waits for a person, by kind.
//!
//! A kind is a list of waiting items in the order of their times, with a stream of its changes. Lists and streams merge
//! the kinds. A further kind needs a variant of [`InboxKind`] and of [`Subject`], and an arm in each match on the kind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use folio_resources::{DictionaryQuestion, Proposal};
use folio_storage::TurnCursor;
use folio_types::access::Scope;
use folio_types::page::Order;
use folio_types::{Error, Reason, Result, Role, Timestamp, UserId, named_enum};
use futures::stream::{BoxStream, select_all};
use futures::{StreamExt as _, TryStreamExt as _};
use serde::Serialize;

use crate::approvals::{self, PendingApproval, PendingChange};
use crate::caller::permission_denied;
use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::list::{COUNT_MAX, LARGE_PAGE_MAX, ListPage, ListRequest, Listing, ScanRead, SortKeys};
use crate::operation::Operation;
use crate::pending_reviews::PendingReview;
use crate::stack_rows::PendingCellReview;
use crate::waiting_items::{self, WaitingChange, WaitingItem};

service! {
    // A token sees the kinds that its scopes permit.
    "InboxService", None => ListInboxItems, WatchInbox
}

/// Maximum number of items of a kind that are read at a time.
const READ_ITEMS: usize = 128;

named_enum! {
    /// The kind of an item. The kinds are in the order in which items with the same time are listed.
    pub enum InboxKind {
        /// A turn that waits for decisions on tool calls.
        Approval = "approval",
        /// An extraction that waits for decisions on its values.
        FieldReview = "field_review",
        /// An open proposal.
        Proposal = "proposal",
        /// An open question about the meaning of a term.
        DictionaryQuestion = "dictionary_question",
        /// A row of a stack with cells that wait for decisions.
        CellReview = "cell_review",
    }
}

/// An item that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Subject {
    Approval(PendingApproval),
    FieldReview(PendingReview),
    Proposal(Box<Proposal>),
    DictionaryQuestion(Box<DictionaryQuestion>),
    CellReview(PendingCellReview),
}

/// The users that may decide on an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deciders {
    /// Minimum roles, any of which suffices.
    pub roles: BTreeSet<Role>,
    /// A user that may decide without one of these roles, as a member.
    pub user: Option<UserId>,
    /// A user that may not decide, regardless of its role.
    pub excluded: Option<UserId>,
}

impl Subject {
    pub fn kind(&self) -> InboxKind {
        match self {
            Self::Approval(_) => InboxKind::Approval,
            Self::FieldReview(_) => InboxKind::FieldReview,
            Self::Proposal(_) => InboxKind::Proposal,
            Self::DictionaryQuestion(_) => InboxKind::DictionaryQuestion,
            Self::CellReview(_) => InboxKind::CellReview,
        }
    }

    /// Returns the id of the turn, the extraction, the proposal, the question or the row, which is unique among the items of all kinds.
    pub fn id(&self) -> String {
        match self {
            Self::Approval(approval) => approval.turn.to_string(),
            Self::FieldReview(review) => review.extraction.to_string(),
            Self::Proposal(proposal) => proposal.id.to_string(),
            Self::DictionaryQuestion(question) => question.id.to_string(),
            Self::CellReview(review) => review.row.to_string(),
        }
    }

    /// Returns the time that orders the items: the start of the pause, or the creation of the other subjects.
    pub fn created_at(&self) -> Option<Timestamp> {
        match self {
            Self::Approval(approval) => approval.paused_at,
            Self::FieldReview(review) => Some(review.created_at),
            Self::Proposal(proposal) => Some(proposal.created_at),
            Self::DictionaryQuestion(question) => Some(question.created_at),
            Self::CellReview(review) => Some(review.created_at),
        }
    }

    /// Returns the time from which decisions are refused. None: the item has no deadline.
    pub fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Self::Approval(approval) => approval.expires_at,
            Self::FieldReview(_) | Self::Proposal(_) | Self::DictionaryQuestion(_) | Self::CellReview(_) => None,
        }
    }

    pub fn deciders(&self) -> Deciders {
        match self {
            Self::Approval(approval) => deciders_of_approval(approval),
            Self::FieldReview(_) | Self::Proposal(_) | Self::DictionaryQuestion(_) | Self::CellReview(_) => {
                Deciders { roles: [Role::Member].into(), user: None, excluded: None }
            }
        }
    }
}

/// Returns the users that may decide on at least one of the calls.
fn deciders_of_approval(approval: &PendingApproval) -> Deciders {
    let approvers = &approval.approvers;
    let is_for_owner = approvers.iter().any(|approver| approver.roles.is_empty());
    // A viewer may not decide. An admin has access to every thread.
    let named = approvers.iter().flat_map(|approver| approver.roles.iter().copied()).map(|role| role.max(Role::Member));
    let excludes_requester = !approvers.is_empty() && approvers.iter().all(|approver| approver.not_by_requester);
    Deciders {
        roles: named.chain(is_for_owner.then_some(Role::Admin)).collect(),
        user: is_for_owner.then(|| approval.owner.clone()),
        excluded: excludes_requester.then(|| approval.user.clone()),
    }
}

/// An entry of the list of a kind, with its position.
struct Entry {
    kind: InboxKind,
    cursor: Cursor,
    /// None: the entry does not wait for the caller.
    item: Option<Subject>,
}

impl InboxKind {
    /// Returns the scope of the operations that decide on the items.
    const fn scope(self) -> Scope {
        match self {
            Self::Approval => Scope::Conversations,
            Self::FieldReview | Self::CellReview => Scope::Extractions,
            Self::Proposal | Self::DictionaryQuestion => Scope::Definitions,
        }
    }

    /// Reads entries after a position, the oldest first. Fewer than `limit`: the list has no more entries.
    async fn read(self, context: &Context, after: Option<&Cursor>, limit: usize) -> Result<Vec<Entry>> {
        match self {
            Self::Approval => {
                let entry = |cursor, item| Entry { kind: self, cursor, item };
                let after =
                    after.map(|after| Ok::<_, Error>(TurnCursor { paused_at: after.at, turn: after.id.parse()? }));
                let read = approvals::read_entries(context, None, after.transpose()?, limit, true).await?;
                let cursor = |turn: TurnCursor| Cursor { at: turn.paused_at, id: turn.turn.to_string() };
                Ok(read.into_iter().map(|(turn, found)| entry(cursor(turn), found.map(Subject::Approval))).collect())
            }
            Self::FieldReview => self.read_waiting(context, after, limit, Subject::FieldReview).await,
            Self::Proposal => {
                self.read_waiting(context, after, limit, |found: Proposal| Subject::Proposal(Box::new(found))).await
            }
            Self::DictionaryQuestion => {
                let subject = |found: DictionaryQuestion| Subject::DictionaryQuestion(Box::new(found));
                self.read_waiting(context, after, limit, subject).await
            }
            Self::CellReview => self.read_waiting(context, after, limit, Subject::CellReview).await,
        }
    }

    /// Reads entries of a kind whose items are resources.
    async fn read_waiting<W: WaitingItem>(
        self,
        context: &Context,
        after: Option<&Cursor>,
        limit: usize,
        subject: fn(W) -> Subject,
    ) -> Result<Vec<Entry>> {
        let after = after.map(|after| Ok::<_, Error>((after.at, after.id.parse()?))).transpose()?;
        let store = context.stores().of::<W::Resource>();
        let read = waiting_items::read::<W>(&store, &context.principal().org, after.as_ref(), limit).await?;
        let entry = |item: W| {
            let cursor = Cursor { at: item.created_at(), id: item.id().to_string() };
            Entry { kind: self, cursor, item: Some(subject(item)) }
        };
        Ok(read.into_iter().map(entry).collect())
    }

    /// Counts the items.
    async fn count(self, context: &Context) -> Result<u64> {
        let org = &context.principal().org;
        match self {
            Self::Approval => approvals::count(context, usize::try_from(COUNT_MAX).unwrap_or(usize::MAX)).await,
            Self::FieldReview => waiting_items::count::<PendingReview>(&context.stores().of(), org).await,
            Self::Proposal => waiting_items::count::<Proposal>(&context.stores().of(), org).await,
            Self::DictionaryQuestion => waiting_items::count::<DictionaryQuestion>(&context.stores().of(), org).await,
            Self::CellReview => waiting_items::count::<PendingCellReview>(&context.stores().of(), org).await,
        }
    }

    /// Streams the items, and then their changes.
    fn watch(self, context: &Context) -> BoxStream<'static, Result<InboxChange>> {
        match self {
            Self::Approval => approvals::watch(context, None)
                .map_ok(|change| match change {
                    PendingChange::Pending(approval) => InboxChange::Item(Box::new(Subject::Approval(*approval))),
                    PendingChange::Removed(turn) => InboxChange::Removed(turn.to_string()),
                    PendingChange::CaughtUp => InboxChange::CaughtUp,
                })
                .boxed(),
            Self::FieldReview => waiting_items::watch(context.pending_reviews())
                .map_ok(|change| inbox_change(change, Subject::FieldReview))
                .boxed(),
            Self::Proposal => waiting_items::watch(context.open_proposals())
                .map_ok(|change| inbox_change(change, |found| Subject::Proposal(Box::new(found))))
                .boxed(),
            Self::DictionaryQuestion => waiting_items::watch(context.open_questions())
                .map_ok(|change| inbox_change(change, |found| Subject::DictionaryQuestion(Box::new(found))))
                .boxed(),
            Self::CellReview => waiting_items::watch(context.pending_cell_reviews())
                .map_ok(|change| inbox_change(change, Subject::CellReview))
                .boxed(),
        }
    }
}

fn inbox_change<W>(change: WaitingChange<W>, subject: impl Fn(W) -> Subject) -> InboxChange {
    match change {
        WaitingChange::Pending(item) => InboxChange::Item(Box::new(subject(item))),
        WaitingChange::Removed(id) => InboxChange::Removed(id),
        WaitingChange::CaughtUp => InboxChange::CaughtUp,
    }
}

/// Returns the kinds that a filter selects and the token of the caller permits. Error: `SCOPE_NOT_ALLOWED` if the filter
/// names a kind that the token does not permit.
fn kinds(context: &Context, text: &str) -> Result<Vec<InboxKind>> {
    let covers = |kind: &InboxKind| context.caller.covers(kind.scope());
    match selected(text)? {
        None => Ok(InboxKind::ALL.iter().copied().filter(covers).collect()),
        Some(kind) if covers(&kind) => Ok(vec![kind]),
        Some(kind) => {
            let scope = kind.scope().as_str();
            let message =
                format!("items of the kind {} require the scope {scope}, which this token lacks", kind.as_str());
            Err(permission_denied(Reason::ScopeNotAllowed, message, "scope", scope))
        }
    }
}

/// Returns the kind that a filter names. None: the filter is empty.
fn selected(text: &str) -> Result<Option<InboxKind>> {
    let mut selected = None;
    for condition in filter::parse(text)? {
        match (condition.field.as_str(), InboxKind::from_name(&condition.value)) {
            ("kind", Some(kind)) => filter::set_once(&mut selected, &condition, kind)?,
            ("kind", None) => {
                let names = InboxKind::names().join(" or ");
                return Err(Error::invalid_field("filter", format!("the value of kind must be {names}")));
            }
            _ => return Err(filter::unknown_field(&condition, "kind")),
        }
    }
    Ok(selected)
}

/// The position of an item in the list of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor {
    at: Timestamp,
    id: String,
}

/// The position of the last read entry of each kind, as a part of a page token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Position(BTreeMap<InboxKind, Cursor>);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self
            .0
            .iter()
            .map(|(kind, cursor)| format!("{} {} {}", kind.as_str(), cursor.at.as_nanosecond(), cursor.id))
            .collect();
        f.write_str(&parts.join(" "))
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = || Error::invalid_field("page_token", "is malformed");
        let mut cursors = BTreeMap::new();
        let mut words = text.split(' ');
        while let Some(kind) = words.next() {
            let kind = InboxKind::from_name(kind).ok_or_else(malformed)?;
            let at = words.next().and_then(|at| at.parse().ok()).and_then(|at| Timestamp::from_nanosecond(at).ok());
            let id = words.next().filter(|id| !id.is_empty()).ok_or_else(malformed)?.to_owned();
            cursors.insert(kind, Cursor { at: at.ok_or_else(malformed)?, id });
        }
        Ok(Self(cursors))
    }
}

/// Merges entries of several kinds by time, and returns the first `limit` entries, each with the position of the merged list
/// after it. Entries of one kind keep their order.
fn merge(mut entries: Vec<Entry>, after: Position, limit: usize) -> Vec<(Position, Option<Subject>)> {
    // The index of pending turns may order by milliseconds.
    entries.sort_by_key(|entry| (entry.cursor.at.as_millisecond(), entry.kind));
    let mut position = after;
    let merged = entries.into_iter().take(limit).map(|Entry { kind, cursor, item }| {
        position.0.insert(kind, cursor);
        (position.clone(), item)
    });
    merged.collect()
}

/// A page of the inbox.
#[derive(Debug, Clone, PartialEq)]
pub struct InboxPage {
    pub page: ListPage<Subject>,
    /// True if approvals may be missing, because their index lost its data, or was unavailable, a short time ago.
    pub is_incomplete: bool,
}

/// Lists the items that wait for the caller, the oldest first. Filter: `kind:` a kind.
///
/// The total counts index entries and list rows; it is exact up to [`COUNT_MAX`] approvals.
#[derive(Debug, Clone, Serialize)]
pub struct ListInboxItems {
    /// The only order is `create_time`.
    pub list: ListRequest,
}

impl Operation for ListInboxItems {
    // A viewer decides nothing.
    const DECLARATION: Declaration = SERVICE.read("ListInboxItems").role(Role::Member);
    type Output = InboxPage;

    async fn run(self, context: &Context) -> Result<InboxPage> {
        let kinds = kinds(context, &self.list.filter)?;
        let principal = context.principal();
        let scope = ["inbox", principal.org.as_str(), principal.user.as_str()];
        let keys = SortKeys::Ascending("create_time");
        let listing = Listing::new(&self.list, &scope, keys, Order::Oldest, LARGE_PAGE_MAX)?;
        // The flag is read before the index, so that a loss of data during the read of the index is noticed.
        let is_incomplete = kinds.contains(&InboxKind::Approval) && approvals::is_index_incomplete(context).await?;
        let mut total = 0_u64;
        if listing.page.token.is_none() {
            for kind in &kinds {
                total = total.saturating_add(kind.count(context).await?);
            }
        }
        let kinds = kinds.as_slice();
        let read = async |scan: ScanRead<Position>| {
            let after = scan.after.unwrap_or_default();
            let reads = kinds.iter().map(|kind| kind.read(context, after.0.get(kind), scan.limit));
            let entries: Vec<Entry> = futures::future::try_join_all(reads).await?.into_iter().flatten().collect();
            Ok(merge(entries, after, scan.limit))
        };
        let page = listing.scan(READ_ITEMS, Some(total), read).await?;
        Ok(InboxPage { page, is_incomplete })
    }
}

/// Streams the items that wait for the caller, and then their changes, within seconds. The stream does not end by itself.
#[derive(Debug, Clone, Serialize)]
pub struct WatchInbox {
    /// Same field as the filter of [`ListInboxItems`].
    pub filter: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum InboxChange {
    /// An item waits, or it changed.
    Item(Box<Subject>),
    /// The id of an item that no longer waits for the caller.
    Removed(String),
    /// The initial items of all kinds were sent. Also sent as a keep-alive.
    CaughtUp,
}

impl Operation for WatchInbox {
    const DECLARATION: Declaration = SERVICE.read("WatchInbox").role(Role::Member).long();
    type Output = BoxStream<'static, Result<InboxChange>>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        let kinds = kinds(context, &self.filter)?;
        let of_kind = |kind: InboxKind| kind.watch(context).map_ok(move |change| (kind, change)).boxed();
        // Without a kind, the stream is silent and does not end.
        let streams = kinds.iter().copied().map(of_kind).chain([futures::stream::pending().boxed()]);
        let mut changes = select_all(streams.collect::<Vec<_>>());
        let changes = async_stream::try_stream! {
            let mut incomplete: BTreeSet<InboxKind> = kinds.into_iter().collect();
            if incomplete.is_empty() {
                yield InboxChange::CaughtUp;
            }
            while let Some(change) = changes.next().await {
                let (kind, change) = change?;
                if change == InboxChange::CaughtUp {
                    incomplete.remove(&kind);
                }
                if change != InboxChange::CaughtUp || incomplete.is_empty() {
                    yield change;
                }
            }
        };
        Ok(changes.boxed())
    }
}

#[cfg(test)]
mod tests;
