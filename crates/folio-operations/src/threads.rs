//! Operations on threads. Reads use the store; changes are made by the node that owns the thread.

use folio_history::History;
use folio_history::command::{CreateThreadCommand, DeleteThreadCommand, ForkThreadCommand, RenameThreadCommand};
use folio_history::event::TurnView;
use folio_history::journal::CallStatus;
use folio_history::thread::{ThreadFilter, ThreadHeader, ThreadView};
use folio_resources::fields;
use folio_types::access::Scope;
use folio_types::message::Message;
use folio_types::page::{Order, Page};
use folio_types::{CallId, Error, Principal, Result, Role, ThreadId, Timestamp, TurnId, limits};
use serde::Serialize;
use serde_json::Value;

use crate::candidates::{Candidates, read_page};
use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, SortKeys, is_by_update, json_bytes};
use crate::operation::Operation;
use crate::thread_messages::{self, Reader};

pub use crate::thread_messages::ThreadMessage;

service! {
    "ThreadService", Some(Scope::Conversations) =>
    CreateThreadCommand, ListThreads, GetThread, RenameThreadCommand, DeleteThreadCommand, ForkThreadCommand,
    ListToolUses
}

/// Maximum size of the messages of a page, as JSON.
// proto: GetThreadRequest.page_size "about {} MiB"
// proto: ListToolUsesRequest.page_size "about {} MiB"
const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// Implements operations that the owner of the thread performs.
macro_rules! by_owner {
    ($($command:ident: $name:literal, $method:ident -> $Output:ty;)+) => {$(
        impl Operation for $command {
            const DECLARATION: Declaration = SERVICE.change($name).by_thread();
            type Output = $Output;

            async fn run(self, context: &Context) -> Result<$Output> {
                context.conversations().$method(context.principal(), self).await
            }
        }
    )+};
}

by_owner! {
    CreateThreadCommand: "CreateThread", create_thread -> ThreadView;
    RenameThreadCommand: "RenameThread", rename_thread -> ThreadView;
    DeleteThreadCommand: "DeleteThread", delete_thread -> ();
    ForkThreadCommand: "ForkThread", fork_thread -> ThreadView;
}

/// Lists the threads that are not ephemeral. Filter: `title:` a part of the title, `document`, `profile`, and `user`
/// (admins only; other callers list their own threads).
#[derive(Debug, Clone, Serialize)]
pub struct ListThreads {
    pub list: ListRequest,
}

impl Operation for ListThreads {
    const DECLARATION: Declaration = SERVICE.read("ListThreads");
    type Output = ListPage<ThreadView>;

    async fn run(self, context: &Context) -> Result<ListPage<ThreadView>> {
        let principal = context.principal();
        let filter = &thread_filter(principal, &self.list.filter)?;
        let user = filter.user.as_ref().map(ToString::to_string).unwrap_or_default();
        let scope = ["threads", principal.org.as_str(), &user];
        let keys = SortKeys::CreateTimeAndTitle;
        if let Some(is_descending) = is_by_update(&self.list.order_by) {
            return by_update(context, &self.list, filter, is_descending).await;
        }
        let listing = Listing::new(&self.list, &scope, keys, Order::Newest, limits::PAGE_SIZE_MAX)?;
        let threads = &context.stores().threads;
        listing
            .fetch(|page| async move {
                let Page { items, next, total } = threads.list(&principal.org, filter, &page).await?;
                Ok(Page { items: items.into_iter().map(ThreadView::from).collect(), next, total })
            })
            .await
    }
}

/// Lists threads by the time of their last update, which no index contains, because each step of a turn changes it.
async fn by_update(
    context: &Context,
    request: &ListRequest,
    filter: &ThreadFilter,
    is_descending: bool,
) -> Result<ListPage<ThreadView>> {
    let (org, threads) = (&context.principal().org, context.stores().threads.as_ref());
    let user = filter.user.as_ref().map(ToString::to_string).unwrap_or_default();
    let scope = ["threads", org.as_str(), &user, &request.order_by];
    let unordered = ListRequest { order_by: String::new(), ..request.clone() };
    let listing = Listing::new(&unordered, &scope, SortKeys::CreateTime, Order::Newest, limits::PAGE_SIZE_MAX)?;
    let _permit = context.sorted_list_permit().await?;
    let position = |header: ThreadHeader| (header.updated_at, header.id);
    let mut found = Candidates::read(|page| async move { threads.list(org, filter, &page).await }, position).await?;
    found.rows.sort_unstable();
    if is_descending {
        found.rows.reverse();
    }
    let total = found.total(found.rows.len());
    let load = |keys: Vec<(Timestamp, ThreadId)>| async move {
        let headers = futures::future::try_join_all(keys.iter().map(|(_, id)| threads.header(org, id))).await?;
        Ok(headers.into_iter().flatten().map(ThreadView::from).collect())
    };
    read_page(&listing, &found.rows, total, load).await
}

fn thread_filter(principal: &Principal, text: &str) -> Result<ThreadFilter> {
    let mut filter = ThreadFilter::default();
    for condition in filter::parse(text)? {
        match condition.field.as_str() {
            "title" => filter::set_once(&mut filter.title_search, &condition, condition.search()?)?,
            "document" => filter::set_once(&mut filter.document, &condition, condition.id()?)?,
            "profile" => filter::set_once(&mut filter.profile, &condition, fields::word("filter", &condition.value)?)?,
            "user" => filter::set_once(&mut filter.user, &condition, condition.id()?)?,
            "stack" => filter::set_once(&mut filter.stack, &condition, condition.id()?)?,
            _ => return Err(filter::unknown_field(&condition, "title, document, profile, stack and user")),
        }
    }
    if principal.role < Role::Admin {
        if filter.user.as_ref().is_some_and(|user| *user != principal.user) {
            return Err(Error::invalid_field("filter", "requires the role admin to list the threads of other users"));
        }
        filter.user = Some(principal.user.clone());
    }
    Ok(filter)
}

/// Returns a thread with a page of its messages and its open turn. Filter: `role` (`user`, `assistant` or `tool`),
/// `text:` a part of the text.
///
/// A thread is visible to its user, to admins, and to users that may approve a pending call of its open turn.
#[derive(Debug, Clone, Serialize)]
pub struct GetThread {
    pub thread_id: ThreadId,
    /// The page of messages, which also ends at about 2 MiB. None: no messages, without a read of the journal.
    pub messages: Option<ListRequest>,
}

#[derive(Debug, Clone)]
pub struct ThreadPage {
    pub thread: ThreadView,
    /// Including the messages of the open turn so far.
    pub messages: ListPage<ThreadMessage>,
    /// The running or pending turn.
    pub open_turn: Option<TurnView>,
}

impl Operation for GetThread {
    const DECLARATION: Declaration = SERVICE.read("GetThread");
    type Output = ThreadPage;

    async fn run(self, context: &Context) -> Result<ThreadPage> {
        let (principal, id) = (context.principal(), &self.thread_id);
        let scope = ["messages", principal.org.as_str(), id.as_str()];
        let listed = |list: &ListRequest| {
            let filter = MessageFilter::parse(&list.filter)?;
            let listing = Listing::new(list, &scope, SortKeys::CreateTime, Order::Oldest, limits::PAGE_SIZE_MAX)?;
            Ok::<_, Error>((filter, listing))
        };
        let listed = self.messages.as_ref().map(listed).transpose()?;
        let header = visible(context, id).await?;
        let messages = match listed {
            Some((filter, listing)) => messages(context, &header, &filter, &listing).await?,
            None => ListPage::default(),
        };
        let open_turn = match header.open_turn {
            Some(_) => context.conversations().open_turn(principal, id).await?,
            None => None,
        };
        Ok(ThreadPage { thread: header.into(), messages, open_turn })
    }
}

/// Returns the header of a thread that the caller may see. The thread's owner decides whether the caller may approve a
/// pending call.
pub(crate) async fn visible(context: &Context, id: &ThreadId) -> Result<ThreadHeader> {
    let principal = context.principal();
    let missing = || Error::not_found("thread", id);
    let header = context.stores().threads.header(&principal.org, id).await?.ok_or_else(missing)?;
    if header.user == principal.user || principal.role == Role::Admin {
        return Ok(header);
    }
    if principal.role == Role::Viewer || header.open_turn.is_none() {
        return Err(missing());
    }
    context.conversations().open_turn(principal, id).await?.map(|_| header).ok_or_else(missing)
}

/// Reads a page of messages: single messages by position, or, with a filter, the whole journal with a permit of the
/// organization.
async fn messages(
    context: &Context,
    header: &ThreadHeader,
    filter: &MessageFilter,
    listing: &Listing,
) -> Result<ListPage<ThreadMessage>> {
    let threads = context.stores().threads.as_ref();
    if filter.is_empty()
        && let Some(reader) = Reader::open(threads, header).await?
    {
        return page_of(reader, listing).await;
    }
    let _permit = context.journal_permit().await?;
    let history = thread_messages::history(threads, header).await?;
    let matching = || thread_messages::visible(header, &history, 0).filter(|found| filter.matches(&found.message));
    let total = matching().count();
    let positions = listing.positions(total)?;
    let (from, size) = (positions.start, positions.len());
    match listing.page.order {
        Order::Newest => {
            let mut newest: Vec<_> = matching().skip(total.saturating_sub(positions.end)).take(size).collect();
            newest.reverse();
            Ok(listing.page_at(from, newest, total, PAGE_BYTES, json_bytes))
        }
        _ => Ok(listing.page_at(from, matching().skip(from).take(size), total, PAGE_BYTES, json_bytes)),
    }
}

async fn page_of(mut reader: Reader<'_>, listing: &Listing) -> Result<ListPage<ThreadMessage>> {
    let total = reader.total();
    let positions = listing.positions(total)?;
    let (mut items, mut bytes, mut end) = (Vec::new(), 0usize, positions.start);
    for position in positions {
        let at = match listing.page.order {
            Order::Newest => total.saturating_sub(position).saturating_sub(1),
            _ => position,
        };
        let Some(message) = reader.message(at).await? else { break };
        bytes = bytes.saturating_add(json_bytes(&message));
        if bytes > PAGE_BYTES && !items.is_empty() {
            break;
        }
        items.push(message);
        end = position.saturating_add(1);
    }
    let next = (end < total && !items.is_empty()).then(|| end.to_string());
    Ok(listing.with_token(Page { items, next, total: total as u64 }))
}

/// Lists the tool calls of a thread, including those of truncated messages: its tool log. Filter: `tool`, `turn`.
///
/// The calls are visible to the users that see the thread.
#[derive(Debug, Clone, Serialize)]
pub struct ListToolUses {
    pub thread_id: ThreadId,
    /// The page, which also ends at about 2 MiB.
    pub list: ListRequest,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolUse {
    pub call: CallId,
    pub tool: String,
    /// The arguments after an edit by a decision.
    pub input: Value,
    /// None: the call has no result yet.
    pub output: Option<String>,
    /// None: the call has no result yet.
    pub status: Option<CallStatus>,
    /// Time of the result. None: unknown, or the call has no result yet.
    pub at: Option<Timestamp>,
    /// The node of the profile's graph that requested the call.
    pub node: Option<String>,
}

impl Operation for ListToolUses {
    const DECLARATION: Declaration = SERVICE.read("ListToolUses");
    type Output = ListPage<ToolUse>;

    async fn run(self, context: &Context) -> Result<ListPage<ToolUse>> {
        let filter = ToolUseFilter::parse(&self.list.filter)?;
        let scope = ["tool uses", context.principal().org.as_str(), self.thread_id.as_str()];
        let listing = Listing::new(&self.list, &scope, SortKeys::CreateTime, Order::Oldest, limits::PAGE_SIZE_MAX)?;
        let header = visible(context, &self.thread_id).await?;
        let _permit = context.journal_permit().await?;
        let history = thread_messages::history(context.stores().threads.as_ref(), &header).await?;
        let mut uses: Vec<ToolUse> = tool_uses(&header.id, &history).filter(|found| filter.matches(found)).collect();
        if listing.page.order == Order::Newest {
            uses.reverse();
        }
        let total = uses.len();
        let from = listing.positions(total)?;
        let items = uses.into_iter().skip(from.start).take(from.len());
        Ok(listing.page_at(from.start, items, total, PAGE_BYTES, json_bytes))
    }
}

/// Returns the calls of a history, oldest first.
fn tool_uses<'a>(thread: &'a ThreadId, history: &'a History) -> impl Iterator<Item = ToolUse> + use<'a> {
    let rounds = history.turns().iter().flat_map(|turn| turn.rounds.iter().map(move |round| (turn, round)));
    let calls = rounds.flat_map(|(turn, round)| round.calls.iter().map(move |call| (turn, round, call)));
    calls.map(move |(turn, round, call)| ToolUse {
        call: turn.call_id(thread, round.round, call.call.index),
        tool: call.call.name.clone(),
        input: call.arguments().clone(),
        output: call.result.as_ref().map(|result| result.content.clone()),
        status: call.status(),
        at: call.result.as_ref().and_then(|result| result.at),
        node: round.node.as_ref().map(|node| node.name.clone()),
    })
}

#[derive(Default)]
struct ToolUseFilter {
    tool: Option<String>,
    turn: Option<TurnId>,
}

impl ToolUseFilter {
    fn parse(text: &str) -> Result<Self> {
        let mut filter = Self::default();
        for condition in filter::parse(text)? {
            match condition.field.as_str() {
                "tool" => filter::set_once(&mut filter.tool, &condition, fields::word("filter", &condition.value)?)?,
                "turn" => filter::set_once(&mut filter.turn, &condition, condition.id()?)?,
                _ => return Err(filter::unknown_field(&condition, "tool and turn")),
            }
        }
        Ok(filter)
    }

    fn matches(&self, found: &ToolUse) -> bool {
        self.tool.as_ref().is_none_or(|tool| *tool == found.tool)
            && self.turn.as_ref().is_none_or(|turn| *turn == found.call.turn)
    }
}

#[derive(Default)]
struct MessageFilter {
    role: Option<&'static str>,
    text: Option<String>,
}

impl MessageFilter {
    fn parse(text: &str) -> Result<Self> {
        let mut filter = Self::default();
        for condition in filter::parse(text)? {
            match (condition.field.as_str(), condition.value.as_str()) {
                ("role", "user") => filter::set_once(&mut filter.role, &condition, "user")?,
                ("role", "assistant") => filter::set_once(&mut filter.role, &condition, "assistant")?,
                ("role", "tool") => filter::set_once(&mut filter.role, &condition, "tool")?,
                ("text", _) => filter::set_once(&mut filter.text, &condition, condition.search()?.to_lowercase())?,
                _ => return Err(filter::unknown_field(&condition, "text, and role with user, assistant or tool")),
            }
        }
        Ok(filter)
    }

    fn is_empty(&self) -> bool {
        self.role.is_none() && self.text.is_none()
    }

    fn matches(&self, message: &Message) -> bool {
        let (role, text) = match message {
            Message::User { text, .. } => ("user", text),
            Message::Assistant { text, .. } => ("assistant", text),
            Message::Tool { content, .. } => ("tool", content),
        };
        self.role.is_none_or(|wanted| wanted == role) && filter::contains(text, self.text.as_ref())
    }
}
