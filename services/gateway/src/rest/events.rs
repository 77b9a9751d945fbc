//! Server-sent events: responses whose frames are JSON in `data:`.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use folio_types::Error;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::failure::Failure;
use crate::connect::{HEARTBEAT, UNBUFFERED};
use crate::faces::StreamEnd;

const EVENTS: &str = "text/event-stream; charset=utf-8";

/// Returns a response with these events. Comments keep it alive, and an error of the layers ends it with a frame.
pub(super) fn response(events: BoxStream<'static, Event>) -> Response {
    ending_with(events, StreamEnd(|error| Bytes::from(format!("data: {}\n\n", error_frame(error)))))
}

/// Returns a response like [`response`] with events that have names: that of an error is `error`.
pub(super) fn named_response(events: BoxStream<'static, Event>) -> Response {
    ending_with(events, StreamEnd(|error| Bytes::from(format!("event: error\ndata: {}\n\n", error_frame(error)))))
}

fn ending_with(events: BoxStream<'static, Event>, end: StreamEnd) -> Response {
    let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("ping");
    let events = Sse::new(events.map(Ok::<_, Infallible>)).keep_alive(keep_alive);
    let mut response = ([(CONTENT_TYPE, EVENTS), UNBUFFERED], events).into_response();
    response.extensions_mut().insert(end);
    response
}

/// Returns the event of a frame.
pub(super) fn sent(frame: &Value) -> Event {
    Event::default().data(frame.to_string())
}

/// Returns the event `error`, which is the last one of a stream whose events have names.
pub(super) fn named_error(error: &Error) -> Event {
    sent(&error_frame(error)).event("error")
}

/// Returns the frame of an error, which is the last one of a stream.
pub(super) fn error_frame(error: &Error) -> Value {
    let failure = Failure::from(error.clone());
    json!({ "type": "error", "error": failure.message(), "code": failure.reason().map(|reason| reason.as_str()) })
}
