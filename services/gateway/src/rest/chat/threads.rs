//! The threads of a document.

use folio_history::command::{CreateThreadCommand, DeleteThreadCommand};
use folio_history::event::TurnView;
use folio_history::thinking_text;
use folio_history::thread::ThreadView;
use folio_operations::ListRequest;
use folio_operations::threads::{GetThread, ListThreads, ThreadMessage};
use folio_proto::thread as validation;
use folio_types::message::{Message, ToolCall};
use folio_types::profile::DOCUMENT_PROFILE;
use folio_types::{DocumentId, ThreadId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::result::{CallBody, PendingCalls, RoundBody, given};
use super::{own_thread, require_document};
use crate::rest::extract::{Bounded, Client, Id, Json, Query};
use crate::rest::list::rows;
use crate::rest::message_images::MessageImageBody;
use crate::rest::reply::Reply;

/// Title of a thread without a title and without a message.
const TITLE: &str = "New chat";
/// Maximum number of messages, with the results of calls, that the response of a thread is made of.
const MESSAGES_MAX: usize = 10_000;

/// The query parameters of the list.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct ThreadsQuery {
    /// Maximum number of threads.
    #[serde(default)]
    #[schema(value_type = u32, minimum = 1, maximum = 100, default = 50)]
    limit: Bounded<1, 100, 50>,
}

/// A thread in the list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ThreadRow {
    /// Identifies the thread.
    id: String,
    /// The title. Default: the start of the first message.
    title: String,
    /// The time of creation.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
}

/// The threads of the caller, the last updated first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ThreadList(Vec<ThreadRow>);

/// A new thread.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(super) struct ThreadFields {
    /// The title. Default: the start of the first message.
    title: Option<String>,
}

/// The id of a new thread.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::rest) struct ThreadCreated {
    thread_id: String,
}

impl ThreadCreated {
    pub(in crate::rest) fn new(id: &ThreadId) -> Json<Self> {
        Json(Self { thread_id: id.to_string() })
    }
}

/// The outcome of the deletion.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ThreadDeleted {
    /// Always true.
    ok: bool,
}

/// A thread with its messages.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ThreadBody {
    /// Identifies the thread.
    id: String,
    /// The title.
    title: String,
    /// The messages, oldest first.
    messages: Vec<StoredMessage>,
    /// The data of the extraction on which the conversation works. Empty: none.
    #[schema(value_type = Object)]
    extraction: Value,
    /// The time of creation.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// The time of the last change.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Timestamp,
    /// The calls that wait for decisions. Absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<PendingCalls>,
}

/// A message of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
struct StoredMessage {
    /// `user` or `assistant`.
    role: &'static str,
    /// The text.
    content: String,
    /// The images, in order. Only messages of the user have some.
    images: Vec<MessageImageBody>,
    /// The calls that wait.
    tool_calls: Option<Vec<CallBody>>,
    /// Always null.
    tool_call_id: Option<String>,
    /// The thinking before the text.
    thinking: Option<String>,
    /// The rounds of the turn before the text.
    executed_rounds: Option<Vec<RoundBody>>,
}

impl StoredMessage {
    fn new(role: &'static str, content: String) -> Self {
        Self {
            role,
            content,
            images: Vec::new(),
            tool_calls: None,
            tool_call_id: None,
            thinking: None,
            executed_rounds: None,
        }
    }

    /// Returns a message of the model after these rounds.
    fn of_model(content: String, rounds: Vec<RoundBody>) -> Self {
        let executed_rounds = (!rounds.is_empty()).then_some(rounds);
        Self { executed_rounds, ..Self::new("assistant", content) }
    }
}

impl From<&ThreadView> for ThreadRow {
    fn from(thread: &ThreadView) -> Self {
        Self {
            id: thread.id.to_string(),
            title: title(thread),
            created_at: thread.created_at,
            updated_at: thread.updated_at,
        }
    }
}

impl From<&ToolCall> for CallBody {
    fn from(call: &ToolCall) -> Self {
        Self { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.to_string() }
    }
}

fn title(thread: &ThreadView) -> String {
    given(&thread.title).unwrap_or_else(|| TITLE.to_owned())
}

pub(super) async fn list(
    client: Client,
    Id(document_id): Id<DocumentId>,
    Query(query): Query<ThreadsQuery>,
) -> Reply<Json<ThreadList>> {
    require_document(&client, &document_id).await?;
    let user = &client.principal().user;
    let filter = format!("document:{document_id} user:{user} profile:{DOCUMENT_PROFILE}");
    let request = ListRequest { filter, order_by: "update_time desc".to_owned(), ..ListRequest::default() };
    let threads = rows(request, query.limit.0 as usize, &|list| client.run(ListThreads { list })).await?.items;
    Ok(Json(ThreadList(threads.iter().map(Into::into).collect())))
}

pub(super) async fn create(
    client: Client,
    Id(document_id): Id<DocumentId>,
    fields: Option<Json<ThreadFields>>,
) -> Reply<Json<ThreadCreated>> {
    require_document(&client, &document_id).await?;
    let command = CreateThreadCommand {
        documents: vec![document_id],
        title: fields.and_then(|Json(fields)| fields.title).unwrap_or_default(),
        request_id: client.request_id().cloned(),
        ..CreateThreadCommand::default()
    };
    let command = validation::create(&validation::encode_create(&command))?;
    Ok(ThreadCreated::new(&client.run(command).await?.id))
}

pub(super) async fn find(
    client: Client,
    Id((document_id, thread_id)): Id<(DocumentId, ThreadId)>,
) -> Reply<Json<ThreadBody>> {
    require_document(&client, &document_id).await?;
    let found = own_thread(&client, &document_id, thread_id).await?;
    let (thread, client) = (found.thread, &client);
    let read = |list| {
        let thread_id = thread.id.clone();
        async move { client.run(GetThread { thread_id, messages: Some(list) }).await.map(|page| page.messages) }
    };
    let messages = rows(ListRequest::default(), MESSAGES_MAX, &read).await?.items;
    let pending = found.open_turn.as_ref().and_then(pending);
    let extraction = thread.working.extraction.as_ref().map_or_else(|| json!({}), |extraction| extraction.data.clone());
    Ok(Json(ThreadBody {
        id: thread.id.to_string(),
        title: title(&thread),
        messages: stored(messages, pending.as_ref()),
        extraction,
        created_at: thread.created_at,
        updated_at: thread.updated_at,
        pending,
    }))
}

pub(super) async fn remove(
    client: Client,
    Id((document_id, thread_id)): Id<(DocumentId, ThreadId)>,
) -> Reply<Json<ThreadDeleted>> {
    require_document(&client, &document_id).await?;
    let thread = own_thread(&client, &document_id, thread_id).await?.thread.id;
    client.run(DeleteThreadCommand { thread, request_id: client.request_id().cloned() }).await?;
    Ok(Json(ThreadDeleted { ok: true }))
}

/// Returns the calls for whose decisions a turn waits. None: the turn runs.
fn pending(turn: &TurnView) -> Option<PendingCalls> {
    Some(PendingCalls::new(&turn.turn, &turn.pending, turn.expires_at?))
}

/// Returns the user and final assistant messages, with the rounds before each answer. Their number is that of
/// `truncate_to_message_count`, except for a message that is added for the rounds or the pending calls of the open turn.
fn stored(messages: Vec<ThreadMessage>, pending: Option<&PendingCalls>) -> Vec<StoredMessage> {
    let (mut stored, mut rounds) = (Vec::new(), Vec::new());
    for ThreadMessage { message, .. } in messages {
        match message {
            Message::User { text, images } => {
                rounds.clear();
                let images = images.iter().map(Into::into).collect();
                stored.push(StoredMessage { images, ..StoredMessage::new("user", text) });
            }
            Message::Assistant { text, thinking, calls } if calls.is_empty() => {
                let thinking = given(&thinking_text(&thinking));
                stored.push(StoredMessage { thinking, ..StoredMessage::of_model(text, std::mem::take(&mut rounds)) });
            }
            Message::Assistant { thinking, calls, .. } => {
                let (thinking, tool_calls) = (given(&thinking_text(&thinking)), calls.iter().map(Into::into).collect());
                rounds.push(RoundBody { thinking, tool_calls });
            }
            Message::Tool { .. } => {}
        }
    }
    let ends_with_user = stored.last().is_some_and(|message| message.role == "user");
    if !rounds.is_empty() || (pending.is_some() && ends_with_user) {
        stored.push(StoredMessage::of_model(String::new(), rounds));
    }
    if let (Some(pending), Some(last)) = (pending, stored.last_mut()) {
        last.tool_calls = Some(pending.tool_calls.clone());
    }
    stored
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::chat::result::tests::{call, turn};

    fn user(text: &str) -> Message {
        Message::user(text.to_owned())
    }

    fn assistant(text: &str, calls: usize) -> Message {
        let call = |n: usize| ToolCall { id: format!("call_{n}"), name: "list_tags".to_owned(), arguments: json!({}) };
        Message::Assistant { text: text.to_owned(), thinking: Vec::new(), calls: (0..calls).map(call).collect() }
    }

    fn tool() -> Message {
        Message::Tool { call: "call_0".to_owned(), content: "{}".to_owned() }
    }

    fn listed(messages: Vec<Message>, pending: Option<&PendingCalls>) -> Vec<(&'static str, String, usize)> {
        let messages = messages
            .into_iter()
            .map(|message| ThreadMessage { count: 0, turn: None, message, groups: Vec::new() })
            .collect();
        let rounds = |message: &StoredMessage| message.executed_rounds.as_ref().map_or(0, Vec::len);
        let stored = stored(messages, pending);
        stored.iter().map(|message| (message.role, message.content.clone(), rounds(message))).collect()
    }

    #[test]
    fn rounds_belong_to_the_answer_after_them() {
        let messages = vec![
            user("a"),
            assistant("", 1),
            tool(),
            assistant("then", 2),
            tool(),
            tool(),
            assistant("b", 0),
            user("c"),
        ];
        let expected = [("user", "a".to_owned(), 0), ("assistant", "b".to_owned(), 2), ("user", "c".to_owned(), 0)];
        assert_eq!(listed(messages, None), expected);
    }

    #[test]
    fn calls_that_wait_are_part_of_the_last_message() {
        let pending = PendingCalls::new(&turn(), &[call(1, 1, true)], Timestamp::UNIX_EPOCH);
        let expected = [("user", "a".to_owned(), 0), ("assistant", String::new(), 0)];
        assert_eq!(listed(vec![user("a")], Some(&pending)), expected);
        let expected = [("user", "a".to_owned(), 0), ("assistant", "I ask".to_owned(), 0)];
        assert_eq!(listed(vec![user("a"), assistant("I ask", 0)], Some(&pending)), expected);
        let message = ThreadMessage { count: 1, turn: None, message: user("a"), groups: Vec::new() };
        let last = stored(vec![message], Some(&pending)).pop().unwrap();
        assert_eq!(last.tool_calls, Some(pending.tool_calls.clone()));
    }
}
