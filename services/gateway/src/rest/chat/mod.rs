//! The routes of the document chat, which DocRouter's page calls.

mod approve;
mod body;
mod frames;
mod result;
mod stream;
mod threads;

use folio_history::command::{ApproveCommand, ChatCommand, CreateThreadCommand, DeleteThreadCommand};
use folio_history::journal::{Access, Mention};
use folio_operations::collections::GetCollection;
use folio_operations::conversations::ListTools;
use folio_operations::documents::GetDocument;
use folio_operations::models::ModelUse;
use folio_operations::prompts::GetPromptRevision;
use folio_operations::schemas::GetSchemaRevision;
use folio_operations::tags::GetTag;
use folio_operations::threads::{GetThread, ListThreads, ThreadPage};
use folio_operations::{ListRequest, PromptRef, SchemaRef};
use folio_types::access::Scope;
use folio_types::profile::DOCUMENT_PROFILE;
use folio_types::{DocumentId, Error, Reason, ThreadId, limits};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::endpoint::{delete, get, post};
use super::extract::{Client, Id, Json};
use super::failure::Failure;
use super::models::chosen;
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};
use super::turn_events::{LastEvent, TurnAnswer};
pub(super) use approve::{Approval, command as approve_command};
use body::ChatBody;
pub(super) use body::MentionBody;
use result::TurnResult;
pub(super) use threads::ThreadCreated;

const THREADS: &str = org_path!("/documents/{document_id}/chat/threads");
const THREAD: &str = org_path!("/documents/{document_id}/chat/threads/{thread_id}");

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<ChatCommand>(Level::Web, post(org_path!("/documents/{document_id}/chat"), chat)),
        route::<ApproveCommand>(Level::Web, post(org_path!("/documents/{document_id}/chat/approve"), approve::approve)),
        route::<ListTools>(Level::Web, get(org_path!("/documents/{document_id}/chat/tools"), tools)),
        route::<ListThreads>(Level::Web, get(THREADS, threads::list)),
        route::<CreateThreadCommand>(Level::Web, post(THREADS, threads::create)),
        route::<GetThread>(Level::Web, get(THREAD, threads::find)),
        route::<DeleteThreadCommand>(Level::Web, delete(THREAD, threads::remove)),
    ]
}

/// The names of the tools.
#[derive(Debug, Serialize, ToSchema)]
struct ToolNames {
    /// The tools that only read.
    read_only: Vec<String>,
    /// The tools that write.
    read_write: Vec<String>,
}

async fn chat(
    client: Client,
    Id(document_id): Id<DocumentId>,
    last_event: LastEvent,
    Json(body): Json<ChatBody>,
) -> Reply<TurnAnswer<TurnResult>> {
    require_document(&client, &document_id).await?;
    let thread = match body.thread_id.as_deref().filter(|id| !id.is_empty()) {
        Some(id) => Some(own_thread(&client, &document_id, parse_thread(id)?).await?.thread.id),
        None => None,
    };
    let is_stream = body.stream.unwrap_or_default();
    if let Some((turn_id, number)) = last_event.0 {
        own_thread(&client, &document_id, turn_id.thread.clone()).await?;
        return stream::rejoin(client, turn_id, number, is_stream).await;
    }
    let named = body.model.clone();
    let model = chosen(&client, named.clone(), ModelUse::Chat, body::MODEL).await?;
    let mut command = body.command(document_id, thread, model)?;
    require_mentioned(&client, &command.mentions).await?;
    command.request_id = client.request_id().cloned();
    let has_images = !command.images.is_empty();
    let refused = |failure| if has_images { failure } else { refused(failure, &named.unwrap_or_default()) };
    let events = client.run(command).await.map_err(refused)?;
    stream::respond(client, events, is_stream, 0).await
}

async fn tools(client: Client, Id(document_id): Id<DocumentId>) -> Reply<Json<ToolNames>> {
    require_document(&client, &document_id).await?;
    let page_size = i32::try_from(limits::PAGE_SIZE_MAX).unwrap_or(i32::MAX);
    let list = ListRequest { page_size, order_by: "name".to_owned(), ..ListRequest::default() };
    let tools = client.run(ListTools { profile: None, list }).await?.items;
    let with = |access: Access| -> Vec<String> {
        tools.iter().filter(|tool| tool.access == access).map(|tool| tool.name.to_owned()).collect()
    };
    Ok(Json(ToolNames { read_only: with(Access::ReadOnly), read_write: with(Access::ReadWrite) }))
}

/// Checks that the document of a route exists, if the token covers documents. For other tokens, the operation of the route
/// makes the check, as over gRPC.
async fn require_document(client: &Client, document_id: &DocumentId) -> Result<(), Failure> {
    if !client.covers(Scope::Documents) {
        return Ok(());
    }
    client.run(GetDocument { document_id: document_id.clone() }).await.map(drop)
}

fn parse_thread(id: &str) -> Result<ThreadId, Failure> {
    id.parse().map_err(|_: Error| missing_thread())
}

fn missing_thread() -> Failure {
    Failure::not_found("Thread not found")
}

/// Returns a thread of the caller about a document, without its messages. The threads of other users are missing here, also for
/// administrators.
async fn own_thread(client: &Client, document: &DocumentId, thread_id: ThreadId) -> Result<ThreadPage, Failure> {
    let found = visible_thread(client, document, thread_id).await?;
    if found.thread.user == client.principal().user { Ok(found) } else { Err(missing_thread()) }
}

/// Returns a thread about a document that the caller may see, without its messages.
async fn visible_thread(client: &Client, document: &DocumentId, thread_id: ThreadId) -> Result<ThreadPage, Failure> {
    let found = client.run(GetThread { thread_id, messages: None }).await?;
    let is_of_document = found.thread.documents == [document.clone()] && found.thread.profile == DOCUMENT_PROFILE;
    if is_of_document { Ok(found) } else { Err(missing_thread()) }
}

/// Checks that the resources that a message names exist. Error: status 404. A token without their scope finds out in the answer
/// only, as over the other faces.
pub(super) async fn require_mentioned(client: &Client, mentions: &[Mention]) -> Result<(), Failure> {
    if !client.covers(Scope::Definitions) {
        return Ok(());
    }
    for mention in mentions {
        match mention.clone() {
            Mention::Schema(revid) => {
                client.run(GetSchemaRevision { schema_revid: SchemaRef::Revision(revid) }).await?;
            }
            Mention::Prompt(revid) => {
                client.run(GetPromptRevision { prompt_revid: PromptRef::Revision(revid) }).await?;
            }
            Mention::Tag(tag_id) => {
                client.run(GetTag { tag_id }).await?;
            }
            Mention::Collection(collection_id) => {
                client.run(GetCollection { collection_id }).await?;
            }
        }
    }
    Ok(())
}

/// Returns the error of a turn with the texts that clients know.
fn refused(failure: Failure, model: &str) -> Failure {
    failure.when(Reason::ModelNotAvailable, StatusCode::BAD_REQUEST, format!("Invalid model: {model}"))
}
