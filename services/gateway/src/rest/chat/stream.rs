//! The answer of a chat: a result, or server-sent events. The last frame of an event has the id `TURN.NUMBER`, with which a client
//! rejoins the stream.

use axum::extract::FromRequestParts;
use axum::response::sse::Event as Sent;
use axum::response::{IntoResponse, Response};
use folio_history::event::{Event, EventKind, TurnView};
use folio_history::peer::EventStream;
use folio_operations::conversations::{GetTurn, WatchTurn};
use folio_types::{Code, Error, Reason, TurnId};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use http::request::Parts;
use serde_json::json;

use super::frames::Frames;
use super::result::{PendingCalls, TurnResult, answer, executed, given};
use crate::rest::endpoint::{Document, DocumentInput, DocumentOutput};
use crate::rest::events::{self, error_frame, sent};
use crate::rest::extract::{Client, Json};
use crate::rest::failure::Failure;
use crate::rest::reply::Reply;
use crate::services::Api;

const LAST_EVENT_ID: &str = "last-event-id";

/// The header `Last-Event-ID`: the turn and the number of the last event that the client has received.
pub(super) struct LastEvent(pub(super) Option<(TurnId, u64)>);

/// Parses the id of an event. None: the id is malformed.
fn event_id(text: &str) -> Option<(TurnId, u64)> {
    let (turn, number) = text.trim().rsplit_once('.')?;
    Some((turn.parse().ok()?, number.parse().ok()?))
}

impl FromRequestParts<Api> for LastEvent {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Failure> {
        let Some(value) = parts.headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else {
            return Ok(Self(None));
        };
        let id = value.to_str().ok().and_then(event_id);
        let invalid = || Error::invalid_field("Last-Event-ID", "is not the id of an event of this server");
        Ok(Self(Some(id.ok_or_else(invalid)?)))
    }
}

impl DocumentInput for LastEvent {
    fn document(document: &mut Document) {
        document.parameters.push(json!({
            "name": "Last-Event-ID", "in": "header", "required": false,
            "description": "The id of the last received event. The stream of its turn continues, and the body starts no turn.",
            "schema": { "type": "string", "maxLength": 200 },
        }));
    }
}

/// The answer of a chat.
pub(super) enum Chatted {
    Result(Box<Json<TurnResult>>),
    Events(BoxStream<'static, Sent>),
}

impl IntoResponse for Chatted {
    fn into_response(self) -> Response {
        match self {
            Self::Result(result) => (*result).into_response(),
            Self::Events(events) => events::response(events),
        }
    }
}

impl DocumentOutput for Chatted {
    fn document(document: &mut Document) {
        let schema = document.reference::<TurnResult>();
        let content = json!({
            "application/json": { "schema": schema },
            "text/event-stream": {},
        });
        document.respond(200, "The result of the turn, or its events as JSON in `data:`.", content);
    }
}

/// Answers with the events of a turn after the number `after`. 0: all.
pub(super) async fn respond(client: Client, events: EventStream, is_stream: bool, after: u64) -> Reply<Chatted> {
    if is_stream {
        let events = client.bounded(events);
        return Ok(Chatted::Events(sent_events(client, events, after).boxed()));
    }
    let closing = closing_event(client.bounded(events)).await?;
    turn_result(&client, &closing, 1).await.map(|result| Chatted::Result(Box::new(Json(result))))
}

/// Continues the stream of a turn after an event. The events before it are read again, because frames depend on them.
pub(super) async fn rejoin(client: Client, turn_id: TurnId, after: u64, is_stream: bool) -> Reply<Chatted> {
    let events = client.run(WatchTurn { turn_id, from_event: 1 }).await?;
    respond(client, events, is_stream, after).await
}

/// Translates events to frames. The stream ends after the closing event, or after an error.
fn sent_events(
    client: Client,
    events: impl Stream<Item = Result<Event, Error>> + Send + Unpin + 'static,
    after: u64,
) -> impl Stream<Item = Sent> + Send {
    async_stream::stream! {
        let (mut events, mut frames) = (events, Frames::default());
        loop {
            match events.next().await {
                Some(Ok(event)) => {
                    let paused = paused_turn(&client, &event).await;
                    let id = format!("{}.{}", event.turn, event.number);
                    let mut found = frames.of(&event, paused.as_ref());
                    if event.number <= after {
                        found.clear();
                    }
                    // Only the last frame has the id: a client that lacks it receives the frames of the event again.
                    let last = found.pop();
                    for frame in &found {
                        yield sent(frame);
                    }
                    if let Some(frame) = last {
                        yield sent(&frame).id(id);
                    }
                    if event.kind.is_closing() {
                        break;
                    }
                }
                Some(Err(error)) => {
                    yield sent(&error_frame(&error));
                    break;
                }
                None => {
                    yield sent(&error_frame(&lost()));
                    break;
                }
            }
        }
    }
}

fn lost() -> Error {
    Error::new(Code::Unavailable, Reason::NodeLost, "the stream of the turn was lost; the turn may continue")
}

/// Returns the turn of an event after which it waits. None: another event, or the turn cannot be read.
async fn paused_turn(client: &Client, event: &Event) -> Option<TurnView> {
    match event.kind {
        EventKind::AwaitingApproval { .. } => client.run(GetTurn { turn_id: event.turn.clone() }).await.ok(),
        _ => None,
    }
}

async fn closing_event(mut events: impl Stream<Item = Result<Event, Error>> + Unpin) -> Result<Event, Failure> {
    while let Some(event) = events.next().await {
        let event = event?;
        if event.kind.is_closing() {
            return Ok(event);
        }
    }
    Err(lost().into())
}

/// Returns the result of a turn from its closing event. `first`: number of the first round in the result.
///
/// # Errors
/// The error of the turn. Status 409 if the turn was cancelled or superseded, 400 if its approval expired.
pub(super) async fn turn_result(client: &Client, closing: &Event, first: u32) -> Result<TurnResult, Failure> {
    match &closing.kind {
        EventKind::Completed { text, thinking, working, rounds, finish, .. } => {
            let last = (answer(text, *finish), given(thinking));
            Ok(TurnResult::new(last, working.into(), executed(rounds, first), None))
        }
        EventKind::AwaitingApproval { round, pending, expires_at } => {
            let turn = client.run(GetTurn { turn_id: closing.turn.clone() }).await?;
            let waiting = turn.rounds.iter().find(|found| found.round == *round);
            let last = waiting.map(|round| (round.text.clone(), given(&round.thinking))).unwrap_or_default();
            let pending = PendingCalls::new(&closing.turn, pending, *expires_at);
            Ok(TurnResult::new(last, (&turn.working).into(), executed(&turn.rounds, first), Some(pending)))
        }
        kind => Err(turn_error(kind).into()),
    }
}

/// Returns the error of a turn that is neither completed nor waits.
fn turn_error(kind: &EventKind) -> Error {
    match kind {
        EventKind::Failed { error, .. } => error.clone(),
        EventKind::Expired => Error::precondition(Reason::TurnExpired, "the approval expired"),
        EventKind::Superseded => Error::new(Code::Aborted, Reason::TurnEnded, "another message superseded the turn"),
        _ => Error::new(Code::Aborted, Reason::TurnEnded, "the turn was cancelled"),
    }
}

#[cfg(test)]
mod tests {
    use folio_types::ThreadId;

    use super::*;

    #[test]
    fn the_id_of_an_event_names_its_turn() {
        let turn = TurnId::new(ThreadId::derive(&["t"]), 3);
        assert_eq!(event_id(&format!("{turn}.17")), Some((turn.clone(), 17)));
        for malformed in ["", "17", ".17", &turn.to_string(), &format!("{turn}.x"), &format!("{turn}.-1")] {
            assert_eq!(event_id(malformed), None, "{malformed}");
        }
    }

    #[tokio::test]
    async fn a_stream_without_a_closing_event_is_lost() {
        let turn = TurnId::new(ThreadId::derive(&["t"]), 1);
        let event = |kind| Ok(Event::new(turn.clone(), 1, kind));
        let begun = || event(EventKind::RoundStarted { round: 1, attempt: 1 });
        let ended = closing_event(futures::stream::iter([begun(), event(EventKind::Cancelled)])).await.unwrap();
        assert_eq!(ended.kind, EventKind::Cancelled);
        let failure = closing_event(futures::stream::iter([begun()])).await.unwrap_err();
        assert_eq!(failure.reason(), Some(Reason::NodeLost));
    }
}
