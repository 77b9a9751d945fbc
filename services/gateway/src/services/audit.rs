//! AuditService, and the one way in which the services record what administrators change.

use std::sync::Arc;

use folio_proto::{time, v1};
use folio_storage::AuditStore;
use folio_types::audit::{AuditEntry, AuditKind, AuditPlace, Ground};
use folio_types::page::Order;
use folio_types::{Error, OrgId, Principal, Result, ThreadId, Timestamp, TurnId, UserId};
use futures::Stream;
use serde_json::Value;
use tonic::{Request, Response, Status};
use v1::audit_service_server::AuditService;

use super::{Answer, Api, answer, listing, principal, streamed};
use crate::audit::{Change, Made};
use crate::filter;
use crate::page::{Asked, By};

/// Entries of a page.
const PAGE_MAX: u32 = 500;
/// Entries that are read at once.
const READ: usize = 500;
/// How often so many are looked through for one page.
const READS_MAX: usize = 20;

#[tonic::async_trait]
impl AuditService for Api {
    type DownloadAuditEntriesStream = Answer<v1::DownloadAuditEntriesResponse>;

    async fn list_audit_entries(
        &self,
        request: Request<v1::ListAuditEntriesRequest>,
    ) -> Result<Response<v1::ListAuditEntriesResponse>, Status> {
        answer(request, |principal, request| self.audited(principal, request)).await
    }

    async fn download_audit_entries(
        &self,
        request: Request<v1::DownloadAuditEntriesRequest>,
    ) -> Result<Response<Self::DownloadAuditEntriesStream>, Status> {
        let principal = principal(&request)?;
        let request = request.into_inner();
        let asked = moments(request.from.as_ref(), request.until.as_ref())
            .and_then(|range| Ok((range, Wanted::read(&request.filter)?)));
        let (range, wanted) = asked.map_err(folio_proto::status::from_error)?;
        let lines = lines(self.gateway.stores.audit.clone(), principal.org, range, wanted);
        Ok(Response::new(streamed(lines, self.transfer_limits(), self.cut.clone())))
    }
}

impl Api {
    /// Makes a change that an administrator asks for, and records it: who, what (`arguments`, without secrets), and what came of it.
    pub(super) async fn recorded<T>(
        &self,
        by: &Principal,
        asked: (&'static str, &str, Value),
        change: impl Future<Output = Result<T>>,
        made: impl FnOnce(&T) -> Made,
    ) -> Result<T> {
        self.recorded_of(&by.org, by, asked, Box::pin(change), made).await
    }

    /// The same for a change of any organization that is there: its own log tells it, too.
    pub(super) async fn recorded_of<T>(
        &self,
        org: &OrgId,
        by: &Principal,
        (operation, request_id, arguments): (&'static str, &str, Value),
        change: impl Future<Output = Result<T>>,
        made: impl FnOnce(&T) -> Made,
    ) -> Result<T> {
        let environment = self.gateway.environment.as_ref();
        let asked = Change::new(environment, by, operation, request_id, arguments)?.of(org);
        asked.recorded(self.gateway.stores.audit.as_ref(), environment, change, made).await
    }

    async fn audited(
        &self,
        principal: Principal,
        request: v1::ListAuditEntriesRequest,
    ) -> Result<v1::ListAuditEntriesResponse> {
        let asked = Asked { size: request.page_size, token: &request.page_token, skip: 0, order_by: &request.order_by };
        let spoken = |at: Option<&prost_types::Timestamp>| at.map(ToString::to_string).unwrap_or_default();
        let scope =
            [request.filter.as_str(), &spoken(request.from.as_ref()), &spoken(request.until.as_ref())].join("\n");
        let listing = listing(&principal, "audit", &scope, asked, By::Created, PAGE_MAX)?;
        let (mut low, mut high) = moments(request.from.as_ref(), request.until.as_ref())?;
        let wanted = Wanted::read(&request.filter)?;
        let newest_first = listing.page.order == Order::Newest;
        if let Some(token) = &listing.page.token {
            let place: AuditPlace = token.parse().map_err(|_| {
                Error::invalid_field("page_token", "is malformed").because(folio_types::Reason::InvalidPageToken)
            })?;
            *(if newest_first { &mut high } else { &mut low }) = place;
        }
        let size = usize::try_from(listing.page.size).unwrap_or(READ);
        let (mut entries, mut place) = (Vec::new(), None);
        'reads: for _ in 0..READS_MAX {
            let limit = if wanted.is_all() { size - entries.len() } else { READ };
            let read = self.gateway.stores.audit.list(&principal.org, &low, &high, newest_first, limit).await?;
            let more = read.len() == limit;
            for entry in read {
                let here = entry.place();
                place = Some(here.clone());
                *(if newest_first { &mut high } else { &mut low }) = here;
                if wanted.fits(&entry) {
                    entries.push(shown(&entry));
                }
                if entries.len() == size {
                    break 'reads;
                }
            }
            if !more {
                place = None;
                break;
            }
        }
        let next_page_token = listing.next(place.map(|place| place.to_string()));
        Ok(v1::ListAuditEntriesResponse { entries, next_page_token })
    }
}

/// A range of time as places: from the beginning, until now, where nothing is said.
fn moments(
    from: Option<&prost_types::Timestamp>,
    until: Option<&prost_types::Timestamp>,
) -> Result<(AuditPlace, AuditPlace)> {
    let from = from.map(|from| time::from_proto("from", from)).transpose()?.unwrap_or(Timestamp::UNIX_EPOCH);
    let until = until.map(|until| time::from_proto("until", until)).transpose()?;
    // Nodes have clocks of their own: what happened now may have a time that is a little later.
    let until = until.unwrap_or(Timestamp::MAX);
    if from > until {
        return Err(Error::invalid_field("from", "lies after `until`"));
    }
    Ok((AuditPlace::before(from), AuditPlace::before(until)))
}

/// Entries as JSON lines, oldest first, some at a time.
fn lines(
    store: Arc<dyn AuditStore>,
    org: OrgId,
    (mut low, high): (AuditPlace, AuditPlace),
    wanted: Wanted,
) -> impl Stream<Item = Result<v1::DownloadAuditEntriesResponse>> + Send {
    async_stream::try_stream! {
        loop {
            let read = store.list(&org, &low, &high, false, READ).await?;
            let whole = read.len() < READ;
            let mut json_lines = String::new();
            for entry in &read {
                low = entry.place();
                if wanted.fits(entry) {
                    json_lines.push_str(&line(entry)?);
                    json_lines.push('\n');
                }
            }
            // One that is empty says that the search goes on.
            yield v1::DownloadAuditEntriesResponse { json_lines };
            if whole {
                break;
            }
        }
    }
}

#[derive(serde::Serialize)]
struct Line<'a> {
    id: String,
    #[serde(flatten)]
    entry: &'a AuditEntry,
}

fn line(entry: &AuditEntry) -> Result<String> {
    let line = serde_json::to_string(&Line { id: entry.id(), entry });
    line.map_err(|error| Error::internal(format!("an audit entry cannot be written: {error}")))
}

/// What a filter asks for.
#[derive(Debug, Default)]
struct Wanted {
    user: Option<UserId>,
    kind: Option<AuditKind>,
    thread: Option<ThreadId>,
    turn: Option<TurnId>,
    subject: Option<String>,
}

impl Wanted {
    fn read(text: &str) -> Result<Self> {
        let mut wanted = Self::default();
        for term in filter::parse(text)? {
            match term.field.as_str() {
                "user" => filter::once(&mut wanted.user, &term, term.id()?)?,
                "thread" => filter::once(&mut wanted.thread, &term, term.id()?)?,
                "turn" => filter::once(&mut wanted.turn, &term, term.id()?)?,
                "subject" => filter::once(&mut wanted.subject, &term, term.search()?)?,
                "kind" => {
                    let kind = AuditKind::ALL.into_iter().find(|kind| kind.as_str() == term.value);
                    let known = AuditKind::ALL.map(AuditKind::as_str).join(", ");
                    let unknown = || Error::invalid_field("filter", format!("kind is one of {known}"));
                    filter::once(&mut wanted.kind, &term, kind.ok_or_else(unknown)?)?;
                }
                _ => return Err(filter::unknown(&term, "user, kind, thread, turn and subject")),
            }
        }
        Ok(wanted)
    }

    fn is_all(&self) -> bool {
        let Self { user, kind, thread, turn, subject } = self;
        user.is_none() && kind.is_none() && thread.is_none() && turn.is_none() && subject.is_none()
    }

    fn fits(&self, entry: &AuditEntry) -> bool {
        let turn = entry.call.as_ref().map(|call| &call.turn);
        self.user.as_ref().is_none_or(|user| entry.user.as_ref() == Some(user))
            && self.kind.is_none_or(|kind| entry.kind == kind)
            && self.thread.as_ref().is_none_or(|thread| turn.is_some_and(|turn| turn.thread == *thread))
            && self.turn.as_ref().is_none_or(|wanted| turn == Some(wanted))
            && self.subject.as_ref().is_none_or(|subject| entry.subject == *subject)
    }
}

fn shown(entry: &AuditEntry) -> v1::AuditEntry {
    let kind = match entry.kind {
        AuditKind::CallApproved => v1::AuditKind::CallApproved,
        AuditKind::CallEdited => v1::AuditKind::CallEdited,
        AuditKind::CallRejected => v1::AuditKind::CallRejected,
        AuditKind::CallAllowed => v1::AuditKind::CallAllowed,
        AuditKind::CallDenied => v1::AuditKind::CallDenied,
        AuditKind::CallEffect => v1::AuditKind::CallEffect,
        AuditKind::ChangeAsked => v1::AuditKind::ChangeAsked,
        AuditKind::ChangeMade => v1::AuditKind::ChangeMade,
        AuditKind::ChangeFailed => v1::AuditKind::ChangeFailed,
    };
    let (ground, rule) = match &entry.ground {
        None => (v1::AuditGround::Unspecified, String::new()),
        Some(Ground::Rule(name)) => (v1::AuditGround::Rule, name.clone()),
        Some(Ground::AutoApprove) => (v1::AuditGround::AutoApprove, String::new()),
        Some(Ground::AutoApprovedTool) => (v1::AuditGround::AutoApprovedTool, String::new()),
        Some(Ground::WritesWait) => (v1::AuditGround::WritesWait, String::new()),
    };
    let arguments = entry.arguments.as_ref();
    let target = entry.target.clone();
    let (target_kind, target_id) = target.map(|target| (target.kind, target.id)).unwrap_or_default();
    v1::AuditEntry {
        entry_id: entry.id(),
        at: Some(time::to_proto(entry.at)),
        kind: kind.into(),
        user_id: entry.user.as_ref().map(ToString::to_string).unwrap_or_default(),
        subject: entry.subject.clone(),
        call_id: entry.call.as_ref().map(ToString::to_string).unwrap_or_default(),
        arguments_json: arguments.map(|arguments| arguments.shown.to_string()).unwrap_or_default(),
        arguments_digest: arguments.map(|arguments| arguments.digest.to_string()).unwrap_or_default(),
        ground: ground.into(),
        rule,
        target_kind,
        target_id,
        outcome: entry.outcome.clone().unwrap_or_default(),
    }
}
