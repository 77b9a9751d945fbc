//! Operations that read the audit log.

use std::sync::Arc;

use folio_resources::audit::{AuditEntry, AuditKind, AuditPosition};
use folio_storage::AuditStore;
use folio_types::access::Scope;
use folio_types::page::Order;
use folio_types::{OrgId, Result, Role, ThreadId, Timestamp, TurnId, UserId};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde::Serialize;

use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, Period, ScanRead, SortKeys};
use crate::operation::Operation;

service! {
    "AuditService", Some(Scope::Administration) =>
    ListAuditEntries, DownloadAuditEntries
}

// proto: ListAuditEntriesRequest.page_size "per page, at most {}."
const PAGE_MAX: u32 = 500;
const READ_ENTRIES: usize = 500;

/// Lists the entries of a period. Filter: `user`, `thread`, `turn`, `kind`, `subject`.
#[derive(Debug, Clone, Serialize)]
pub struct ListAuditEntries {
    pub period: Period,
    pub list: ListRequest,
}

/// Returns the positions of start and end. Default: the whole log.
fn bounds(period: Period) -> Result<(AuditPosition, AuditPosition)> {
    // The clocks of nodes differ: an entry that is written now may have a slightly later time.
    let (start, end) = period.bounds(|_| Timestamp::UNIX_EPOCH, Timestamp::MAX)?;
    Ok((AuditPosition::before(start), AuditPosition::before(end)))
}

impl Operation for ListAuditEntries {
    const DECLARATION: Declaration = SERVICE.read("ListAuditEntries").role(Role::Admin);
    type Output = ListPage<AuditEntry>;

    async fn run(self, context: &Context) -> Result<ListPage<AuditEntry>> {
        let org = &context.principal().org;
        let text = |at: Option<Timestamp>| at.map(|at| at.to_string()).unwrap_or_default();
        let scope = ["audit", org.as_str(), &text(self.period.start_time), &text(self.period.end_time)];
        let listing = Listing::new(&self.list, &scope, SortKeys::CreateTime, Order::Newest, PAGE_MAX)?;
        let (low, high) = bounds(self.period)?;
        let filter = EntryFilter::parse(&self.list.filter)?;
        let is_newest_first = listing.page.order == Order::Newest;
        listing
            .scan(READ_ENTRIES, None, async |scan: ScanRead<AuditPosition>| {
                let after = scan.after.as_ref();
                let (low, high) =
                    if is_newest_first { (&low, after.unwrap_or(&high)) } else { (after.unwrap_or(&low), &high) };
                let read = context.stores().audit.list(org, low, high, is_newest_first, scan.limit).await?;
                Ok(read
                    .into_iter()
                    .map(|entry| (entry.position(), Some(entry).filter(|it| filter.matches(it))))
                    .collect())
            })
            .await
    }
}

/// Streams the entries of a period, oldest first.
#[derive(Debug, Clone, Serialize)]
pub struct DownloadAuditEntries {
    pub period: Period,
    /// Same fields as the filter of [`ListAuditEntries`].
    pub filter: String,
}

impl Operation for DownloadAuditEntries {
    const DECLARATION: Declaration = SERVICE.read("DownloadAuditEntries").role(Role::Admin).long();
    /// Streams groups of entries. An empty item means that the search continues.
    type Output = BoxStream<'static, Result<Vec<AuditEntry>>>;

    async fn run(self, context: &Context) -> Result<Self::Output> {
        let (bounds, filter) = (bounds(self.period)?, EntryFilter::parse(&self.filter)?);
        Ok(entries(Arc::clone(&context.stores().audit), context.principal().org.clone(), bounds, filter))
    }
}

fn entries(
    store: Arc<dyn AuditStore>,
    org: OrgId,
    (mut low, high): (AuditPosition, AuditPosition),
    filter: EntryFilter,
) -> BoxStream<'static, Result<Vec<AuditEntry>>> {
    async_stream::try_stream! {
        loop {
            let mut read = store.list(&org, &low, &high, false, READ_ENTRIES).await?;
            let is_last = read.len() < READ_ENTRIES;
            if let Some(last) = read.last() {
                low = last.position();
            }
            read.retain(|entry| filter.matches(entry));
            yield read;
            if is_last {
                break;
            }
        }
    }
    .boxed()
}

#[derive(Debug, Default)]
struct EntryFilter {
    user: Option<UserId>,
    kind: Option<AuditKind>,
    thread: Option<ThreadId>,
    turn: Option<TurnId>,
    subject: Option<String>,
}

impl EntryFilter {
    fn parse(text: &str) -> Result<Self> {
        let mut filter = Self::default();
        for condition in filter::parse(text)? {
            match condition.field.as_str() {
                "user" => filter::set_once(&mut filter.user, &condition, condition.id()?)?,
                "thread" => filter::set_once(&mut filter.thread, &condition, condition.id()?)?,
                "turn" => filter::set_once(&mut filter.turn, &condition, condition.id()?)?,
                "subject" => filter::set_once(&mut filter.subject, &condition, condition.value.clone())?,
                "kind" => {
                    let named = AuditKind::from_name(&condition.value);
                    filter::set_once(&mut filter.kind, &condition, condition.one_of(named, &AuditKind::names())?)?;
                }
                _ => return Err(filter::unknown_field(&condition, "user, kind, thread, turn and subject")),
            }
        }
        Ok(filter)
    }

    fn matches(&self, entry: &AuditEntry) -> bool {
        let turn = entry.call.as_ref().map(|call| &call.turn);
        self.user.as_ref().is_none_or(|user| entry.user.as_ref() == Some(user))
            && self.kind.is_none_or(|kind| entry.kind == kind)
            && self.thread.as_ref().is_none_or(|thread| turn.is_some_and(|turn| turn.thread == *thread))
            && self.turn.as_ref().is_none_or(|wanted| turn == Some(wanted))
            && self.subject.as_ref().is_none_or(|subject| entry.subject == *subject)
    }
}
