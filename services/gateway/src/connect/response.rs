//! Translates a response of gRPC to JSON, or to server-sent events.

use std::convert::Infallible;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use bytes::{Buf as _, Bytes, BytesMut};
use folio_operations::Declaration;
use folio_proto::status;
use folio_types::{Error, Result};
use futures::Stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName};
use http_body_util::BodyExt as _;
use prost_reflect::MessageDescriptor;
use tonic::body::Body;
use tonic::{Code, Status};

use super::error::{body, failure};
use crate::descriptors;
use crate::message_json::{decode, to_json};

/// Interval of the comments in a stream without events.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);

/// Instructs proxies to forward each event at once.
pub(crate) const UNBUFFERED: (HeaderName, &str) = (HeaderName::from_static("x-accel-buffering"), "no");

/// Length of the prefix of a gRPC message.
const PREFIX: usize = 5;

pub(crate) async fn translate(operation: &Declaration, response: http::Response<Body>) -> Response {
    let Some(method) = descriptors::method(operation) else {
        return failure(&status::from_error(Error::internal(format!("{} is not described", operation.name))));
    };
    let messages = Messages { body: response.into_body(), buffer: BytesMut::new(), output: method.output() };
    if method.is_server_streaming() {
        let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("ping");
        return ([UNBUFFERED], Sse::new(messages.events()).keep_alive(keep_alive)).into_response();
    }
    match messages.only().await {
        Ok(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
        Err(status) => failure(&status),
    }
}

/// The messages of a response.
struct Messages {
    body: Body,
    buffer: BytesMut,
    output: MessageDescriptor,
}

enum Part {
    /// A message as JSON.
    Message(Vec<u8>),
    /// The status of the call.
    End(Status),
}

impl Messages {
    /// Returns the next message, or the status after the last one.
    async fn next(&mut self) -> Part {
        loop {
            match take_message(&mut self.buffer) {
                Ok(Some(message)) => {
                    match decode(self.output.clone(), &message).and_then(|message| to_json(&message)) {
                        Ok(json) => return Part::Message(json),
                        Err(error) => return Part::End(status::from_error(error)),
                    }
                }
                Ok(None) => {}
                Err(error) => return Part::End(status::from_error(error)),
            }
            match self.body.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.buffer.extend_from_slice(&data),
                    Err(frame) => return Part::End(status_of(frame.trailers_ref())),
                },
                Some(Err(status)) => return Part::End(status),
                None => return Part::End(status_of(None)),
            }
        }
    }

    /// Returns the message of a unary call.
    async fn only(mut self) -> Result<Vec<u8>, Status> {
        let message = match self.next().await {
            Part::Message(message) => message,
            Part::End(status) if status.code() == Code::Ok => {
                return Err(status::from_error(Error::internal("a unary call returned no message")));
            }
            Part::End(status) => return Err(status),
        };
        match self.next().await {
            Part::End(status) if status.code() != Code::Ok => Err(status),
            _ => Ok(message),
        }
    }

    /// Returns the messages as events. The last event is `end`, or `error` with the error as JSON.
    fn events(self) -> impl Stream<Item = Result<Event, Infallible>> + Send {
        futures::stream::unfold(Some(self), |messages| async move {
            let mut messages = messages?;
            let (event, next) = match messages.next().await {
                Part::Message(json) => (Event::default().data(String::from_utf8_lossy(&json)), Some(messages)),
                Part::End(status) if status.code() == Code::Ok => (Event::default().event("end").data("{}"), None),
                Part::End(status) => (Event::default().event("error").data(body(&status).to_string()), None),
            };
            Some((Ok(event), next))
        })
    }
}

fn status_of(trailers: Option<&HeaderMap>) -> Status {
    trailers
        .and_then(Status::from_header_map)
        .unwrap_or_else(|| status::from_error(Error::internal("a response ended without a status")))
}

/// Removes the first message from the received bytes. None: it is not complete.
fn take_message(buffer: &mut BytesMut) -> Result<Option<Bytes>> {
    let Some([compressed, a, b, c, d]) = buffer.first_chunk::<PREFIX>().copied() else { return Ok(None) };
    if compressed != 0 {
        return Err(Error::internal("a response is compressed, although the request permits no compression"));
    }
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
    if buffer.len().saturating_sub(PREFIX) < length {
        return Ok(None);
    }
    buffer.advance(PREFIX);
    Ok(Some(buffer.split_to(length).freeze()))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use folio_operations::declaration;
    use folio_proto::v1::{GetTagResponse, Tag, WatchTurnResponse};
    use folio_types::Reason;
    use http::StatusCode;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use prost::Message;
    use serde_json::{Value, json};

    use super::*;
    use crate::connect::prefix;

    fn framed(message: &impl Message) -> Vec<u8> {
        let encoded = message.encode_to_vec();
        [prefix(encoded.len()).as_slice(), &encoded].concat()
    }

    /// A response with these bytes in chunks of three, and with this status.
    fn response(bytes: &[u8], status: &Status) -> http::Response<Body> {
        let mut trailers = HeaderMap::new();
        status.add_header(&mut trailers).unwrap();
        let chunks = bytes.chunks(3).map(|chunk| Frame::data(Bytes::copy_from_slice(chunk)));
        let frames: VecDeque<_> = chunks.chain([Frame::trailers(trailers)]).map(Ok::<_, Status>).collect();
        http::Response::new(Body::new(StreamBody::new(futures::stream::iter(frames))))
    }

    async fn answered(service: &str, name: &str, bytes: &[u8], status: Status) -> (StatusCode, String) {
        let response = translate(declaration(service, name).unwrap(), response(bytes, &status)).await;
        let code = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_unary_response_is_one_object() {
        let tag = Tag { tag_id: "tag_1".into(), created_by: "b".into(), ..Tag::default() };
        let message = framed(&GetTagResponse { tag: Some(tag) });
        let (code, body) = answered("TagService", "GetTag", &message, Status::ok("")).await;
        assert_eq!(code, StatusCode::OK);
        let expected = json!({"tag": {"tag_id": "tag_1", "created_by": "b"}});
        assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), expected);
        let late = status::from_error(Error::exhausted(Reason::Overloaded, "late"));
        let (code, body) = answered("TagService", "GetTag", &message, late).await;
        assert_eq!(code, StatusCode::TOO_MANY_REQUESTS);
        assert!(body.contains("resource_exhausted") && !body.contains("tag_1"), "{body}");
    }

    #[tokio::test]
    async fn a_stream_ends_with_an_event_that_names_its_outcome() {
        let messages = [framed(&WatchTurnResponse::default()), framed(&WatchTurnResponse::default())].concat();
        let (code, body) = answered("ConversationService", "WatchTurn", &messages, Status::ok("")).await;
        assert_eq!((code, body.as_str()), (StatusCode::OK, "data: {}\n\ndata: {}\n\nevent: end\ndata: {}\n\n"));
        let error = status::from_error(Error::not_found("turn", "t"));
        let (code, body) = answered("ConversationService", "WatchTurn", &messages, error).await;
        assert_eq!(code, StatusCode::OK);
        let (_, last) = body.split_once("event: error\ndata: ").unwrap();
        assert_eq!(serde_json::from_str::<Value>(last).unwrap()["code"], "not_found");
    }
}
