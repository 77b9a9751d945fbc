//! The events of a turn as server-sent events, for every route that sends a message. The id of an event is `TURN.NUMBER`, with
//! which a client continues the stream.

use axum::extract::FromRequestParts;
use axum::response::sse::Event as Sent;
use axum::response::{IntoResponse, Response};
use folio_history::event::{Event, EventKind};
use folio_history::peer::EventStream;
use folio_proto::v1;
use folio_types::{Code, Error, Reason, TurnId};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use http::request::Parts;
use prost_reflect::{FieldDescriptor, ReflectMessage as _};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::endpoint::{Document, DocumentInput, DocumentOutput};
use super::events::{self, named_error};
use super::extract::{Client, Json};
use super::failure::Failure;
use crate::message_json::{describe, to_json};
use crate::services::Api;

const LAST_EVENT_ID: &str = "last-event-id";

/// The header `Last-Event-ID`: the turn and the number of the last event that the client has received.
pub(super) struct LastEvent(pub(super) Option<(TurnId, u64)>);

/// Returns the id of an event.
pub(super) fn event_id(event: &Event) -> String {
    format!("{}.{}", event.turn, event.number)
}

/// Parses the id of an event. None: the id is malformed.
fn parse_event_id(text: &str) -> Option<(TurnId, u64)> {
    let (turn, number) = text.trim().rsplit_once('.')?;
    Some((turn.parse().ok()?, number.parse().ok()?))
}

impl FromRequestParts<Api> for LastEvent {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Failure> {
        let Some(value) = parts.headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else {
            return Ok(Self(None));
        };
        let id = value.to_str().ok().and_then(parse_event_id);
        let invalid = || Error::invalid_field("Last-Event-ID", "is not the id of an event of this server");
        Ok(Self(Some(id.ok_or_else(invalid)?)))
    }
}

impl DocumentInput for LastEvent {
    fn document(document: &mut Document) {
        document.parameters.push(json!({
            "name": "Last-Event-ID", "in": "header", "required": false,
            "description": "The id of the last received event. The stream of its turn continues, and a body starts no turn.",
            "schema": { "type": "string", "maxLength": 200 },
        }));
    }
}

/// The answer to a message: the result of its turn, or the response with the events of the turn.
pub(super) enum TurnAnswer<T> {
    Result(Box<Json<T>>),
    Events(Response),
}

impl<T: Serialize> IntoResponse for TurnAnswer<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Result(result) => (*result).into_response(),
            Self::Events(response) => response,
        }
    }
}

impl<T: ToSchema> DocumentOutput for TurnAnswer<T> {
    fn document(document: &mut Document) {
        let schema = document.reference::<T>();
        let content = json!({
            "application/json": { "schema": schema },
            "text/event-stream": {},
        });
        document.respond(200, "The result of the turn, or its events as JSON in `data:`.", content);
    }
}

/// The events of a turn, each with the name of its kind in the proto files and with the message `Event` as data. The last one is a
/// closing event or `error`.
pub(super) struct TurnEvents(BoxStream<'static, Sent>);

impl TurnEvents {
    pub(super) fn new(client: &Client, events: EventStream) -> Self {
        let events = until_closing(client.bounded(events));
        let events =
            events.map(|event| event.and_then(|event| named(&event)).unwrap_or_else(|error| named_error(&error)));
        Self(events.boxed())
    }
}

impl IntoResponse for TurnEvents {
    fn into_response(self) -> Response {
        events::named_response(self.0)
    }
}

impl DocumentOutput for TurnEvents {
    fn document(document: &mut Document) {
        let description = "The events of the turn, as JSON in `data:`; the last one is a closing event or `error`.";
        document.respond(200, description, json!({ "text/event-stream": {} }));
    }
}

/// Returns an event of the API, with the name of its kind.
fn named(event: &Event) -> Result<Sent, Error> {
    let message = describe(&v1::Event::from(event))?;
    let is_kind = |field: &FieldDescriptor| field.containing_oneof().is_some() && message.has_field(field);
    let kind = message.descriptor().fields().find(is_kind);
    let json = to_json(&message)?;
    let name = kind.as_ref().map_or("event", FieldDescriptor::name);
    Ok(Sent::default().event(name).id(event_id(event)).data(String::from_utf8_lossy(&json)))
}

/// Returns the events of a turn until its closing event. A stream that ends without a closing event ends with an error.
pub(super) fn until_closing(
    events: impl Stream<Item = Result<Event, Error>> + Send + Unpin + 'static,
) -> BoxStream<'static, Result<Event, Error>> {
    let until_closing = async_stream::stream! {
        let mut events = events;
        while let Some(item) = events.next().await {
            let is_last = match &item {
                Ok(event) => event.kind.is_closing(),
                Err(_) => true,
            };
            yield item;
            if is_last {
                return;
            }
        }
        yield Err(Error::new(
            Code::Unavailable,
            Reason::NodeLost,
            "the stream of the turn was lost; the turn may continue",
        ));
    };
    until_closing.boxed()
}

/// Reads the events of a turn until its closing event, and returns it. Error: the stream of the turn was lost.
pub(super) async fn closing_event(
    events: impl Stream<Item = Result<Event, Error>> + Send + Unpin + 'static,
) -> Result<Event, Error> {
    let mut events = until_closing(events);
    while let Some(event) = events.next().await {
        let event = event?;
        if event.kind.is_closing() {
            return Ok(event);
        }
    }
    Err(Error::internal("the events of a turn have no end"))
}

/// Returns the error of a turn that is neither completed nor waits.
pub(super) fn turn_error(kind: &EventKind) -> Error {
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

    fn turn() -> TurnId {
        TurnId::new(ThreadId::derive(&["t"]), 3)
    }

    #[test]
    fn the_id_of_an_event_names_its_turn() {
        let id = event_id(&Event::new(turn(), 17, EventKind::Cancelled));
        assert_eq!(parse_event_id(&id), Some((turn(), 17)));
        for malformed in ["", "17", ".17", &turn().to_string(), &format!("{}.x", turn()), &format!("{}.-1", turn())] {
            assert_eq!(parse_event_id(malformed), None, "{malformed}");
        }
    }

    #[tokio::test]
    async fn a_stream_without_a_closing_event_is_lost() {
        let event = |kind| Ok(Event::new(turn(), 1, kind));
        let begun = || event(EventKind::RoundStarted { round: 1, attempt: 1 });
        let ended =
            closing_event(futures::stream::iter([begun(), event(EventKind::Cancelled), begun()])).await.unwrap();
        assert_eq!(ended.kind, EventKind::Cancelled);
        let error = closing_event(futures::stream::iter([begun()])).await.unwrap_err();
        assert_eq!(error.reason, Reason::NodeLost);
        let items: Vec<_> =
            until_closing(futures::stream::iter([event(EventKind::Cancelled), begun()])).collect().await;
        assert_eq!(items.len(), 1, "nothing follows the closing event");
    }

    #[test]
    fn an_event_has_the_name_of_its_kind() {
        for (kind, name) in [
            (EventKind::TextDelta { text: "a\nb".to_owned() }, "text_delta"),
            (EventKind::NodeStarted { round: 1, name: "qa_agent".to_owned() }, "node_started"),
            (EventKind::Cancelled, "cancelled"),
        ] {
            let text = format!("{:?}", named(&Event::new(turn(), 2, kind)).unwrap());
            assert!(text.contains(&format!("event: {name}")), "{text}");
        }
    }
}
