//! The routes of conversations with any agent: messages, and the turns that answer them. No client of DocRouter calls them.

use folio_history::command::{ApproveCommand, ChatCommand, CreateThreadCommand, IfBusy, IfPending};
use folio_operations::conversations::{CancelTurn, GetTurn, ResumeTurn, WatchTurn};
use folio_proto::{approve as approvals, chat, fields, thread, v1};
use folio_types::{Error, RequestId, ThreadId, TurnId, limits};
use serde::Deserialize;
use utoipa::ToSchema;

use super::chat::{Approval, MentionBody, ThreadCreated, approve_command, require_mentioned};
use super::endpoint::{get, post};
use super::extract::{Client, Id, Json, Query};
use super::reply::{MessageReply, Reply};
use super::routes::{Level, Route, org_path, route};
use super::turn_events::{LastEvent, TurnEvents};

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<CreateThreadCommand>(Level::Own, post(org_path!("/threads"), create)),
        route::<ChatCommand>(Level::Own, post(org_path!("/threads/{thread_id}/messages"), send)),
        route::<GetTurn>(Level::Own, get(org_path!("/turns/{turn_id}"), find)),
        route::<WatchTurn>(Level::Own, get(org_path!("/turns/{turn_id}/events"), watch)),
        route::<ApproveCommand>(Level::Own, post(org_path!("/turns/{turn_id}/approve"), approve)),
        route::<CancelTurn>(Level::Own, post(org_path!("/turns/{turn_id}/cancel"), cancel)),
        route::<ResumeTurn>(Level::Own, post(org_path!("/turns/{turn_id}/resume"), resume)),
    ]
}

/// A new thread.
#[derive(Debug, Deserialize, ToSchema)]
struct ProfileThread {
    /// The profile: the agent of the thread, such as `assistant`.
    profile: String,
    /// The documents of the thread, as many as the profile requires, at most 100. Null: none.
    document_ids: Option<Vec<String>>,
    /// The title. Default: the start of the first message.
    title: Option<String>,
    /// The model. Default: the default model of the organization.
    model: Option<String>,
}

/// A message to the agent of a thread.
#[derive(Debug, Deserialize, ToSchema)]
struct ThreadText {
    /// The message: not blank, at most 128 KiB.
    text: String,
    /// Schemas, prompts, tags and collections that the message names, at most 20. The assistant reads only documents with all of these
    /// tags that are in one of these collections.
    mentions: Option<Vec<MentionBody>>,
    /// Images of the message: at most 4 ids of `message_images`, of images that the caller uploaded or that the thread contains.
    image_ids: Option<Vec<String>>,
    /// The model. Default: that of the thread.
    model: Option<String>,
    /// True: calls run without approval unless the policy of the organization requires one. Default: false.
    auto_approve: Option<bool>,
    /// Tools whose calls run without approval unless the policy of the organization requires one, at most 100.
    auto_approved_tools: Option<Vec<String>>,
    /// The behavior while a turn of the thread runs. Default: `reject`.
    if_busy: Option<BusyThread>,
    /// The behavior while a turn of the thread waits for approval. Default: `reject`.
    if_pending: Option<PendingThread>,
    /// Number of stored messages to keep before the new one. Default: all.
    truncate_to_message_count: Option<u32>,
    /// Maximum credits of the model calls. Default: no bound but that of the profile.
    credit_budget: Option<u64>,
}

/// The behavior of a message while a turn of its thread runs.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum BusyThread {
    /// The message is refused.
    Reject,
    /// The message waits until the running turn ends.
    Enqueue,
    /// The running turn is cancelled first.
    Interrupt,
}

/// The behavior of a message while a turn of its thread waits for approval.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum PendingThread {
    /// The message is refused.
    Reject,
    /// The waiting turn ends as superseded first.
    Supersede,
}

/// The query parameters of a stream.
#[derive(Debug, Deserialize, ToSchema)]
struct TurnEventsQuery {
    /// Number of the first event, unless the header `Last-Event-ID` is sent. Default: the first event of the turn.
    from_event: Option<u64>,
}

/// Decisions on the calls of a turn.
#[derive(Debug, Deserialize, ToSchema)]
struct TurnApprovals {
    /// The decisions on calls of one round, at most 32. Empty: no decisions, for a round in which no call needs one.
    approvals: Vec<Approval>,
    /// The treatment of calls that need a decision and are left out. Default: `wait`.
    undecided: Option<UndecidedCalls>,
}

/// The treatment of calls that need a decision and are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum UndecidedCalls {
    /// The calls wait for another request.
    Wait,
    /// The calls are rejected.
    Reject,
}

impl ThreadText {
    fn command(self, thread: ThreadId, request_id: Option<RequestId>) -> Result<ChatCommand, Error> {
        let mentions = self.mentions.unwrap_or_default();
        let command = ChatCommand {
            thread: Some(thread),
            mentions: mentions.iter().map(MentionBody::parse).collect::<Result<_, _>>()?,
            images: fields::ids("image_ids", &self.image_ids.unwrap_or_default(), limits::MESSAGE_IMAGES_MAX)?,
            model: self.model,
            auto_approve: self.auto_approve.unwrap_or_default(),
            auto_approved_tools: self.auto_approved_tools.unwrap_or_default(),
            if_busy: match self.if_busy {
                None | Some(BusyThread::Reject) => IfBusy::Reject,
                Some(BusyThread::Enqueue) => IfBusy::Enqueue,
                Some(BusyThread::Interrupt) => IfBusy::Interrupt,
            },
            if_pending: match self.if_pending {
                None | Some(PendingThread::Reject) => IfPending::Reject,
                Some(PendingThread::Supersede) => IfPending::Supersede,
            },
            truncate_to_message_count: self.truncate_to_message_count,
            credit_budget: self.credit_budget,
            request_id,
            ..ChatCommand::new(self.text)
        };
        chat::parse(chat::encode(&command))
    }
}

async fn create(client: Client, Json(body): Json<ProfileThread>) -> Reply<Json<ThreadCreated>> {
    let request = v1::CreateThreadRequest {
        profile: body.profile,
        document_ids: body.document_ids.unwrap_or_default(),
        title: body.title.unwrap_or_default(),
        model: body.model.unwrap_or_default(),
        request_id: fields::text_of(client.request_id()),
    };
    Ok(ThreadCreated::new(&client.run(thread::create(&request)?).await?.id))
}

async fn send(client: Client, Id(thread_id): Id<ThreadId>, Json(body): Json<ThreadText>) -> Reply<TurnEvents> {
    let command = body.command(thread_id, client.request_id().cloned())?;
    require_mentioned(&client, &command.mentions).await?;
    let events = client.run(command).await?;
    Ok(TurnEvents::new(&client, events))
}

async fn find(client: Client, Id(turn_id): Id<TurnId>) -> Reply<MessageReply<v1::Turn>> {
    let turn = client.run(GetTurn { turn_id }).await?;
    Ok(MessageReply((&turn).into()))
}

async fn watch(
    client: Client,
    Id(turn_id): Id<TurnId>,
    LastEvent(last): LastEvent,
    Query(query): Query<TurnEventsQuery>,
) -> Reply<TurnEvents> {
    let from_event = match last {
        Some((turn, _)) if turn != turn_id => {
            return Err(Error::invalid_field("Last-Event-ID", "is the id of an event of another turn").into());
        }
        Some((_, number)) => number.saturating_add(1),
        None => query.from_event.unwrap_or_default(),
    };
    let events = client.run(WatchTurn { turn_id, from_event }).await?;
    Ok(TurnEvents::new(&client, events))
}

async fn approve(
    client: Client,
    Id(turn_id): Id<TurnId>,
    Json(body): Json<TurnApprovals>,
) -> Reply<MessageReply<v1::ApproveResponse>> {
    let turn = client.run(GetTurn { turn_id }).await?;
    let rejects = body.undecided == Some(UndecidedCalls::Reject);
    let answer = client.run(approve_command(&turn, body.approvals, rejects)?).await?;
    Ok(MessageReply(approvals::encode_answer(&answer)?))
}

async fn cancel(client: Client, Id(turn_id): Id<TurnId>) -> Reply<MessageReply<v1::Turn>> {
    let turn = client.run(CancelTurn { turn_id }).await?;
    Ok(MessageReply((&turn).into()))
}

async fn resume(client: Client, Id(turn_id): Id<TurnId>) -> Reply<TurnEvents> {
    let events = client.run(ResumeTurn { turn_id }).await?;
    Ok(TurnEvents::new(&client, events))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn command(body: Value) -> Result<ChatCommand, Error> {
        let body: ThreadText = serde_json::from_value(body).unwrap();
        body.command(ThreadId::derive(&["t"]), None)
    }

    #[test]
    fn a_message_keeps_a_running_and_a_waiting_turn_by_default() {
        let plain = command(json!({ "text": "Hello" })).unwrap();
        assert_eq!((plain.if_busy, plain.if_pending), (IfBusy::Reject, IfPending::Reject));
        assert_eq!((plain.thread, plain.profile), (Some(ThreadId::derive(&["t"])), None));
        let chosen = json!({ "text": "Hello", "if_busy": "interrupt", "if_pending": "supersede" });
        let chosen = command(chosen).unwrap();
        assert_eq!((chosen.if_busy, chosen.if_pending), (IfBusy::Interrupt, IfPending::Supersede));
    }

    #[test]
    fn a_message_out_of_bounds_is_refused_with_its_field() {
        let tag = json!({ "type": "tag", "id": folio_types::TagId::derive(&["a"]) });
        for (body, field) in [
            (json!({ "text": " " }), "text"),
            (json!({ "text": "a".repeat(limits::USER_TEXT_BYTES + 1) }), "text"),
            (json!({ "text": "a", "credit_budget": 0 }), "credit_budget"),
            (json!({ "text": "a", "image_ids": ["x"] }), "image_ids[0]"),
            (json!({ "text": "a", "mentions": vec![tag; limits::MENTIONS_MAX + 1] }), "mentions"),
        ] {
            assert_eq!(command(body).unwrap_err().violations[0].field, field);
        }
    }
}
