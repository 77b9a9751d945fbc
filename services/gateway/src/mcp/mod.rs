//! The face MCP (Model Context Protocol): `POST /mcp`, streamable HTTP with the tokens of the other faces.
//!
//! | client | opens with | versions |
//! |---|---|---|
//! | with a handshake | `initialize` | 2025-03-26, 2025-06-18, 2025-11-25 |
//! | stateless | any request whose `_meta` names a version; `server/discover` | 2026-07-28 |
//!
//! The gateway keeps no session. A tool call about a document is a turn with a direct call (`call`), so that any gateway
//! can answer any message of a client. `approval` asks the user of a client to decide on a call that waits. Other tools
//! and the resources are operations (`tools`, `resources`). The face has no rule of its own about what a caller may do.

mod approval;
mod assistant;
mod call;
mod collections;
mod links;
mod message;
mod passages;
mod resources;
mod stack_calls;
mod stacks;
mod tool_uses;
mod tools;

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use folio_operations::{Call, Caller, Declaration, Operation, Service};
use folio_proto::status;
use folio_types::{Error, Reason, Result, json};
use http::header::{ACCEPT, CONTENT_TYPE, ORIGIN};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};
use tonic::body::Body;

use crate::connect::{HEARTBEAT, UNBUFFERED};
use crate::services::Api;
use call::Outcome;
use message::{Failure, Message, Protocol, Sent};

pub(crate) const PATH: &str = "/mcp";

static SERVICE: Service = Service { name: "Mcp", scope: None };
/// The exchange of a message. Every token may exchange messages; the operations that a message requests check role and scope.
pub(crate) static EXCHANGE: Declaration = SERVICE.read("ExchangeMessage").long();

/// The id of a session with a handshake. It contains what the client can do, because no gateway remembers the handshake.
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

const INSTRUCTIONS: &str = "Folio stores documents and extracts data from them. search_documents finds documents by name, search \
    finds passages of all documents, get_section reads a section, and search_stacks finds tables over documents. Every other tool \
    concerns one document or one table, which an argument names. A call that waits for approval returns the status \
    waiting_for_approval with its turn_id: get_turn returns its result later. Set _meta.request_id to repeat a call safely.";

/// A client that sent a message.
struct Client {
    api: Api,
    caller: Caller,
    protocol: Protocol,
}

impl Client {
    async fn run<O: Operation>(&self, operation: O) -> Result<O::Output> {
        self.api.operations().run(&self.caller, Call::new(operation)).await
    }
}

/// Answers a message. An error is answered like a refusal of the layers.
pub(crate) async fn respond(api: Api, request: Request<Body>) -> Result<Response> {
    let (head, body) = request.into_parts();
    let caller = head.extensions.get::<Caller>().cloned();
    let caller = caller.ok_or_else(|| Error::internal("a message reached its handler without a caller"))?;
    if let Some(origin) = head.headers.get(ORIGIN)
        && !api.permits_origin(origin)
    {
        return Ok(StatusCode::FORBIDDEN.into_response());
    }
    check_content_type(&head.headers)?;
    let body = body.collect().await.map_err(|status| status::of_transport(&status))?.to_bytes();
    let sent = match std::str::from_utf8(&body).map_err(|error| error.to_string()) {
        Ok(text) => json::read(text).map_err(|error| error.to_string()),
        Err(error) => Err(error),
    };
    let sent = match sent {
        Ok(value) => message::read(value),
        Err(problem) => Err(Failure::new(message::PARSE_ERROR, problem)),
    };
    let Sent { id, message } = match sent {
        Ok(sent) => sent,
        Err(failure) => return Ok(failure.respond(&Value::Null, StatusCode::BAD_REQUEST)),
    };
    let (method, params) = match message {
        Message::Request { method, params } => (method, params),
        Message::Notification => return Ok(StatusCode::ACCEPTED.into_response()),
        Message::Response { result } => {
            let client = Client { api, caller, protocol: Protocol::Handshake { elicits: true } };
            approval::decide_by_response(&client, &id, &result).await?;
            return Ok(StatusCode::ACCEPTED.into_response());
        }
    };
    let protocol = match Protocol::of(&head.headers, &method, &params) {
        Ok(protocol) => protocol,
        Err(failure) => return Ok(failure.respond(&id, StatusCode::BAD_REQUEST)),
    };
    let is_streamed = accepts_events(&head.headers);
    let client = Client { api, caller, protocol: if is_streamed { protocol } else { protocol.without_stream() } };
    if method == "tools/call" && is_streamed {
        return Ok(stream(client, id, params));
    }
    Ok(answer(&client, &id, &method, params).await)
}

/// Checks that the body is JSON. A browser sends other types across origins without a preflight request.
fn check_content_type(headers: &HeaderMap) -> Result<()> {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(Error::invalid(Reason::UnsupportedType, "the content type must be application/json"))
}

fn accepts_events(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT).iter().any(|value| value.to_str().is_ok_and(|value| value.contains("text/event-stream")))
}

/// Answers a request with one JSON object.
async fn answer(client: &Client, id: &Value, method: &str, params: Map<String, Value>) -> Response {
    let result = match method {
        "initialize" => return initialize(id, &params),
        "server/discover" => Ok(client.protocol.cached(discovery())),
        "ping" => Ok(json!({})),
        "tools/list" => tools::list(client).await,
        "tools/call" => called(client, params).await,
        "resources/list" => resources::list(client, &params).await,
        "resources/templates/list" => Ok(client.protocol.cached(resources::templates())),
        "resources/read" => resources::read(client, &params).await,
        _ => {
            let failure = Failure::new(message::METHOD_NOT_FOUND, format!("the method {method:?} is not served"));
            let is_stateless = matches!(client.protocol, Protocol::Stateless { .. });
            return failure.respond(id, if is_stateless { StatusCode::NOT_FOUND } else { StatusCode::OK });
        }
    };
    match result {
        Ok(result) => respond_json(StatusCode::OK, &message::result(id, &client.protocol.complete(result))),
        Err(failure) => failure.respond(id, StatusCode::OK),
    }
}

/// Runs a tool call for a client that reads no stream: a call that waits is answered at once.
async fn called(client: &Client, params: Map<String, Value>) -> Result<Value, Failure> {
    match tools::call(client, params).await? {
        Outcome::Ended(result) => Ok(result),
        Outcome::Elicits(waiting) => Ok(waiting.result()),
    }
}

/// Runs a tool call and answers with a stream, whose heartbeats keep the connection open during a long call.
fn stream(client: Client, id: Value, params: Map<String, Value>) -> Response {
    let events = async_stream::stream! {
        let result = match tools::call(&client, params).await {
            Ok(Outcome::Ended(result)) => Ok(result),
            Ok(Outcome::Elicits(waiting)) => {
                yield event(&waiting.request());
                Ok(approval::outcome(&client, &waiting).await)
            }
            Err(failure) => Err(failure),
        };
        yield event(&match result {
            Ok(result) => message::result(&id, &client.protocol.complete(result)),
            Err(failure) => failure.message(&id),
        });
    };
    let keep_alive = KeepAlive::new().interval(HEARTBEAT).text("ping");
    ([UNBUFFERED], Sse::new(events).keep_alive(keep_alive)).into_response()
}

fn event(message: &Value) -> Result<Event, Infallible> {
    Ok(Event::default().data(message.to_string()))
}

fn respond_json(status: StatusCode, message: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], message.to_string()).into_response()
}

/// Answers the handshake. The id of the session states whether the client elicits, for the gateways of later messages.
fn initialize(id: &Value, params: &Map<String, Value>) -> Response {
    let requested = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let elicits = params.get("capabilities").and_then(|capabilities| capabilities.get("elicitation")).is_some();
    let mut result = discovery();
    if let Some(result) = result.as_object_mut() {
        result.remove("supportedVersions");
        result.insert("protocolVersion".to_owned(), message::handshake_version(requested).into());
    }
    let mut response = respond_json(StatusCode::OK, &message::result(id, &result));
    response.headers_mut().insert(SESSION_ID, HeaderValue::from_static(message::session_id(elicits)));
    response
}

fn discovery() -> Value {
    json!({
        "supportedVersions": message::supported_versions(),
        "capabilities": { "tools": {}, "resources": {} },
        "serverInfo": { "name": "folio", "title": "Folio", "version": env!("CARGO_PKG_VERSION") },
        "instructions": INSTRUCTIONS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_json_is_read_and_only_a_client_that_accepts_events_receives_them() {
        let with = |name, value| HeaderMap::from_iter([(name, HeaderValue::from_static(value))]);
        assert!(check_content_type(&with(CONTENT_TYPE, "application/json; charset=utf-8")).is_ok());
        for refused in ["text/plain", "application/x-www-form-urlencoded", ""] {
            assert_eq!(
                check_content_type(&with(CONTENT_TYPE, refused)).unwrap_err().reason,
                Reason::UnsupportedType,
                "{refused}"
            );
        }
        assert!(accepts_events(&with(ACCEPT, "application/json, text/event-stream")));
        assert!(!accepts_events(&with(ACCEPT, "application/json")) && !accepts_events(&HeaderMap::new()));
    }
}
