//! ThreadService: reads from the store, changes through the owner of the thread.

use folio_proto::{fields, thread, v1};
use folio_storage::ThreadFilter;
use folio_types::history::History;
use folio_types::page::Order;
use folio_types::thread::ThreadHeader;
use folio_types::{Error, Principal, Result, Role, ThreadId, TurnId, UserId, limits};
use prost::Message as _;
use tonic::{Request, Response, Status};
use v1::message::Kind;
use v1::thread_service_server::ThreadService;

use super::{Api, answer, asked};
use crate::filter;
use crate::page::{By, Listing, total};

/// Entries that are read at once.
const ENTRIES_AT_ONCE: usize = 512;
/// Bytes of messages at which a page ends.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

#[tonic::async_trait]
impl ThreadService for Api {
    async fn create_thread(
        &self,
        request: Request<v1::CreateThreadRequest>,
    ) -> Result<Response<v1::CreateThreadResponse>, Status> {
        answer(request, async |principal, request| {
            thread::create(&request)?;
            let thread = self.gateway.peer.create_thread(&principal, request).await?;
            Ok(v1::CreateThreadResponse { thread: Some(thread) })
        })
        .await
    }

    async fn list_threads(
        &self,
        request: Request<v1::ListThreadsRequest>,
    ) -> Result<Response<v1::ListThreadsResponse>, Status> {
        answer(request, |principal, request| self.threads(principal, request)).await
    }

    async fn get_thread(
        &self,
        request: Request<v1::GetThreadRequest>,
    ) -> Result<Response<v1::GetThreadResponse>, Status> {
        answer(request, |principal, request| self.thread(principal, request)).await
    }

    async fn rename_thread(
        &self,
        request: Request<v1::RenameThreadRequest>,
    ) -> Result<Response<v1::RenameThreadResponse>, Status> {
        answer(request, async |principal, request| {
            thread::rename(&request)?;
            let thread = self.gateway.peer.rename_thread(&principal, request).await?;
            Ok(v1::RenameThreadResponse { thread: Some(thread) })
        })
        .await
    }

    async fn delete_thread(
        &self,
        request: Request<v1::DeleteThreadRequest>,
    ) -> Result<Response<v1::DeleteThreadResponse>, Status> {
        answer(request, async |principal, request| {
            thread::delete(&request)?;
            self.gateway.peer.delete_thread(&principal, request).await?;
            Ok(v1::DeleteThreadResponse {})
        })
        .await
    }

    async fn fork_thread(
        &self,
        request: Request<v1::ForkThreadRequest>,
    ) -> Result<Response<v1::ForkThreadResponse>, Status> {
        answer(request, async |principal, request| {
            thread::fork(&request)?;
            let thread = self.gateway.peer.fork_thread(&principal, request).await?;
            Ok(v1::ForkThreadResponse { thread: Some(thread) })
        })
        .await
    }
}

/// Which messages of a thread.
#[derive(Default)]
struct MessageFilter {
    role: Option<&'static str>,
    text: Option<String>,
}

impl MessageFilter {
    fn parse(text: &str) -> Result<Self> {
        let mut filter = Self::default();
        for term in filter::parse(text)? {
            match (term.field.as_str(), term.value.as_str()) {
                ("role", "user") => filter::once(&mut filter.role, &term, "user")?,
                ("role", "assistant") => filter::once(&mut filter.role, &term, "assistant")?,
                ("role", "tool") => filter::once(&mut filter.role, &term, "tool")?,
                ("text", _) => filter::once(&mut filter.text, &term, term.search()?.to_lowercase())?,
                _ => return Err(filter::unknown(&term, "text, and role with user, assistant or tool")),
            }
        }
        Ok(filter)
    }

    fn fits(&self, message: &v1::Message) -> bool {
        let (role, text) = match &message.kind {
            Some(Kind::User(user)) => ("user", user.text.as_str()),
            Some(Kind::Assistant(assistant)) => ("assistant", assistant.text.as_str()),
            Some(Kind::Tool(tool)) => ("tool", tool.content.as_str()),
            None => return false,
        };
        self.role.is_none_or(|wanted| wanted == role)
            && self.text.as_ref().is_none_or(|part| text.to_lowercase().contains(part))
    }
}

impl Api {
    /// The header of a thread that the caller may see: the own ones, for an admin all of the organization.
    async fn visible(&self, principal: &Principal, id: &ThreadId) -> Result<ThreadHeader> {
        let found = self.gateway.stores.threads.header(&principal.org, id).await?;
        found
            .filter(|thread| thread.user == principal.user || principal.role == Role::Admin)
            .ok_or_else(|| Error::not_found("thread", id))
    }

    async fn threads(&self, principal: Principal, request: v1::ListThreadsRequest) -> Result<v1::ListThreadsResponse> {
        let filter = thread_filter(&principal, &request.filter)?;
        let seen_by = filter.user.as_ref().map(UserId::as_str).unwrap_or_default();
        let scope = ["threads", principal.org.as_str(), seen_by, &request.filter];
        let by = By::Name("title");
        let listing = Listing::read(asked!(request), &scope, by, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let threads = &self.gateway.stores.threads;
        let page = listing.fetch(async |page| threads.list(&principal.org, &filter, &page).await).await?;
        Ok(v1::ListThreadsResponse {
            threads: page.items,
            next_page_token: page.next_page_token,
            total_size: page.total_size,
        })
    }

    async fn thread(&self, principal: Principal, request: v1::GetThreadRequest) -> Result<v1::GetThreadResponse> {
        let id: ThreadId = fields::id("thread_id", &request.thread_id)?;
        let filter = MessageFilter::parse(&request.filter)?;
        let scope = format!("messages of {id}");
        let scope = [scope.as_str(), principal.org.as_str(), &request.filter];
        let listing = Listing::read(asked!(request), &scope, By::Created, Order::Oldest, limits::PAGE_SIZE_MAX)?;
        let header = self.visible(&principal, &id).await?;
        let mut messages = self.messages(&header).await?;
        messages.retain(|message| filter.fits(message));
        if listing.page.order == Order::Newest {
            messages.reverse();
        }
        let page = listing.slice_within(messages, PAGE_BYTES, |message| message.encoded_len())?;
        let pending_turn = match header.open_turn {
            Some(_) => self.gateway.peer.open_turn(&principal, &id).await?,
            None => None,
        };
        Ok(v1::GetThreadResponse {
            thread: Some((&header).into()),
            messages: page.items,
            next_page_token: listing.next(page.next),
            total_size: total(page.total),
            pending_turn,
        })
    }

    /// The visible messages: the fold of the journal.
    async fn messages(&self, header: &ThreadHeader) -> Result<Vec<v1::Message>> {
        let mut history = History::new();
        let mut from = 0;
        loop {
            let threads = &self.gateway.stores.threads;
            let entries = threads.entries(&header.org, &header.id, from, ENTRIES_AT_ONCE).await?;
            let last = entries.len() < ENTRIES_AT_ONCE;
            for (sequence, entry) in entries {
                from = sequence.saturating_add(1);
                history.push(entry);
            }
            if last {
                break;
            }
        }
        let shown = history.messages().map(|shown| {
            let turn = shown.turn.map(|number| TurnId::new(header.id.clone(), number).to_string());
            v1::Message { count: shown.count, turn_id: turn.unwrap_or_default(), ..(&shown.message).into() }
        });
        Ok(shown.collect())
    }
}

fn thread_filter(principal: &Principal, text: &str) -> Result<ThreadFilter> {
    let mut filter = ThreadFilter::default();
    for term in filter::parse(text)? {
        match term.field.as_str() {
            "title" => filter::once(&mut filter.title_search, &term, term.search()?)?,
            "document" => filter::once(&mut filter.document, &term, term.id()?)?,
            "profile" => filter::once(&mut filter.profile, &term, fields::word("filter", &term.value)?)?,
            "user" => filter::once(&mut filter.user, &term, term.id()?)?,
            _ => return Err(filter::unknown(&term, "title, document, profile and user")),
        }
    }
    if principal.role < Role::Admin {
        if filter.user.as_ref().is_some_and(|user| *user != principal.user) {
            return Err(Error::invalid_field("filter", "only an admin lists the threads of others"));
        }
        filter.user = Some(principal.user.clone());
    }
    Ok(filter)
}
