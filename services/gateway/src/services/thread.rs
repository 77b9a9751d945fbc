//! ThreadService: reads from the store, changes through the owner of the thread.

use folio_history::thread::ThreadHeader;
use folio_proto::{fields, thread, v1};
use folio_storage::ThreadFilter;
use folio_types::page::{Order, Page};
use folio_types::{Error, Principal, Result, Role, ThreadId, UserId, limits};
use prost::Message as _;
use tonic::{Request, Response, Status};
use v1::message::Kind;
use v1::thread_service_server::ThreadService;

use super::messages::{self, Reader};
use super::{Api, answer, asked};
use crate::filter;
use crate::page::{By, Listing, total};

/// Bytes of messages at which a page ends.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

#[tonic::async_trait]
impl ThreadService for Api {
    async fn create_thread(
        &self,
        request: Request<v1::CreateThreadRequest>,
    ) -> Result<Response<v1::CreateThreadResponse>, Status> {
        answer(request, async |principal, request| {
            let thread = self.gateway.peer.create_thread(&principal, thread::create(&request)?).await?;
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
            let thread = self.gateway.peer.rename_thread(&principal, thread::rename(&request)?).await?;
            Ok(v1::RenameThreadResponse { thread: Some(thread) })
        })
        .await
    }

    async fn delete_thread(
        &self,
        request: Request<v1::DeleteThreadRequest>,
    ) -> Result<Response<v1::DeleteThreadResponse>, Status> {
        answer(request, async |principal, request| {
            self.gateway.peer.delete_thread(&principal, thread::delete(&request)?).await?;
            Ok(v1::DeleteThreadResponse {})
        })
        .await
    }

    async fn fork_thread(
        &self,
        request: Request<v1::ForkThreadRequest>,
    ) -> Result<Response<v1::ForkThreadResponse>, Status> {
        answer(request, async |principal, request| {
            let thread = self.gateway.peer.fork_thread(&principal, thread::fork(&request)?).await?;
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

    fn is_empty(&self) -> bool {
        self.role.is_none() && self.text.is_none()
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
    /// The header of a thread that the caller may see: the own ones, for an admin all of the organization, and those in which the
    /// caller may approve what waits, as their owner says.
    async fn visible(&self, principal: &Principal, id: &ThreadId) -> Result<ThreadHeader> {
        let missing = || Error::not_found("thread", id);
        let thread = self.gateway.stores.threads.header(&principal.org, id).await?.ok_or_else(missing)?;
        if thread.user == principal.user || principal.role == Role::Admin {
            return Ok(thread);
        }
        if principal.role == Role::Viewer || thread.open_turn.is_none() {
            return Err(missing());
        }
        self.gateway.peer.open_turn(principal, id).await?.map(|_| thread).ok_or_else(missing)
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
        let page = self.messages(&header, &filter, &listing).await?;
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

    /// A page of messages: read where they are, or from the fold of the whole journal where a filter looks at every one.
    async fn messages(
        &self,
        header: &ThreadHeader,
        filter: &MessageFilter,
        listing: &Listing,
    ) -> Result<Page<v1::Message>> {
        let threads = self.gateway.stores.threads.as_ref();
        if filter.is_empty()
            && let Some(reader) = Reader::open(threads, header).await?
        {
            return page_of(reader, listing).await;
        }
        let mut messages = messages::all(threads, header).await?;
        messages.retain(|message| filter.fits(message));
        if listing.page.order == Order::Newest {
            messages.reverse();
        }
        listing.slice_within(messages, PAGE_BYTES, prost::Message::encoded_len)
    }
}

/// A page of all messages, of which only its own are read.
async fn page_of(mut reader: Reader<'_>, listing: &Listing) -> Result<Page<v1::Message>> {
    let total = reader.total();
    let asked = listing.positions(total)?;
    let (mut items, mut bytes, mut end) = (Vec::new(), 0usize, asked.start);
    for position in asked {
        let at = match listing.page.order {
            Order::Newest => total.saturating_sub(position).saturating_sub(1),
            _ => position,
        };
        let Some(message) = reader.message(at).await? else { break };
        bytes = bytes.saturating_add(message.encoded_len());
        if bytes > PAGE_BYTES && !items.is_empty() {
            break;
        }
        items.push(message);
        end = position.saturating_add(1);
    }
    let next = (end < total && !items.is_empty()).then(|| end.to_string());
    Ok(Page { items, next, total: total as u64 })
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
