//! The framing of MCP: JSON-RPC 2.0, the versions of the protocol, and the headers that repeat parts of a message.

use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use folio_types::{Code, Error};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

use super::{SESSION_ID, respond_json};
use crate::http_status::{http_status, public};
use crate::json_member::set_member;

pub(super) const PARSE_ERROR: i64 = -32_700;
pub(super) const INVALID_REQUEST: i64 = -32_600;
pub(super) const METHOD_NOT_FOUND: i64 = -32_601;
pub(super) const INVALID_PARAMS: i64 = -32_602;
const INTERNAL_ERROR: i64 = -32_603;
/// A header differs from the part of the message that it repeats.
const HEADER_MISMATCH: i64 = -32_020;
const UNSUPPORTED_VERSION: i64 = -32_022;

/// Versions with a handshake, the newest first.
const HANDSHAKE_VERSIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
const STATELESS_VERSION: &str = "2026-07-28";

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// Ids of sessions with a handshake. The first one belongs to clients that elicit.
const SESSION_IDS: [&str; 2] = ["folio-elicitation", "folio"];

/// Maximum number of characters of a text of a client that an error quotes.
const EXCERPT_CHARS: usize = 100;

/// A message of a client. The id is null if the message has none.
#[derive(Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) id: Value,
    pub(super) message: Message,
}

#[derive(Debug, PartialEq)]
pub(super) enum Message {
    Request {
        method: String,
        params: Map<String, Value>,
    },
    /// No notification changes anything: the end of a response does not end a turn.
    Notification,
    /// The answer to a request of the server. An error is null.
    Response {
        result: Value,
    },
}

/// An error of JSON-RPC.
#[derive(Debug, PartialEq)]
pub(super) struct Failure {
    code: i64,
    message: String,
    data: Value,
}

impl Failure {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: Value::Null }
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    pub(super) fn message(&self, id: &Value) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if !self.data.is_null() {
            set_member(&mut error, "data", self.data.clone());
        }
        let mut message = json!({ "jsonrpc": "2.0", "error": error });
        if !id.is_null() {
            set_member(&mut message, "id", id.clone());
        }
        message
    }

    pub(super) fn respond(&self, id: &Value, status: StatusCode) -> Response {
        respond_json(status, &self.message(id))
    }
}

/// Converts the error of an operation. Its reason is a member of the data. Errors that JSON-RPC does not define have the
/// status of HTTP as their code.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = http_status(&error);
        let error = public(error);
        let code = match error.code {
            Code::InvalidArgument | Code::NotFound => INVALID_PARAMS,
            Code::Internal | Code::DataLoss => INTERNAL_ERROR,
            _ => i64::from(status.as_u16()),
        };
        let data = json!({ "reason": error.reason.as_str(), "details": error.details });
        Self { code, message: error.message, data }
    }
}

/// Returns the response to a request.
pub(super) fn result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// Reads a message. Batches are not part of the protocol.
pub(super) fn read(value: Value) -> Result<Sent, Failure> {
    let invalid = |problem: &str| Failure::new(INVALID_REQUEST, problem);
    let Value::Object(mut object) = value else { return Err(invalid("a message is one JSON object")) };
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid("jsonrpc must be \"2.0\""));
    }
    let id = object.remove("id").unwrap_or_default();
    let is_id = id.is_string() || id.is_i64() || id.is_u64();
    if !is_id && !id.is_null() {
        return Err(invalid("id must be a string or an integer"));
    }
    let method = match object.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return Err(invalid("method must be a string")),
        None if is_id && (object.contains_key("result") || object.contains_key("error")) => {
            let result = object.remove("result").unwrap_or_default();
            return Ok(Sent { id, message: Message::Response { result } });
        }
        None => return Err(invalid("method is missing")),
    };
    if !is_id {
        return Ok(Sent { id, message: Message::Notification });
    }
    match object.remove("params") {
        None | Some(Value::Null) => Ok(Sent { id, message: Message::Request { method, params: Map::new() } }),
        Some(Value::Object(params)) => Ok(Sent { id, message: Message::Request { method, params } }),
        Some(_) => Err(invalid("params must be an object")),
    }
}

/// The kind of a client. `elicits`: the client asks its user on behalf of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The client opened with `initialize`.
    Handshake { elicits: bool },
    /// Every request states version and capabilities.
    Stateless { elicits: bool },
}

impl Protocol {
    /// Returns the protocol of a request, and checks the headers that repeat its parts.
    pub(super) fn of(headers: &HeaderMap, method: &str, params: &Map<String, Value>) -> Result<Self, Failure> {
        let meta = params.get("_meta");
        let Some(version) = meta.and_then(|meta| meta.get(VERSION_KEY)) else {
            let version = header(headers, "mcp-protocol-version")?;
            let is_unknown = version.as_ref().is_some_and(|version| !HANDSHAKE_VERSIONS.contains(&version.as_str()));
            if is_unknown && method != "initialize" {
                return Err(unsupported(version.as_deref().unwrap_or_default()));
            }
            let session = header(headers, SESSION_ID.as_str())?;
            return Ok(Self::Handshake { elicits: session.as_deref() == SESSION_IDS.first().copied() });
        };
        let version = version.as_str().unwrap_or_default();
        if version != STATELESS_VERSION {
            return Err(unsupported(version));
        }
        check_header(headers, "mcp-protocol-version", version)?;
        check_header(headers, "mcp-method", method)?;
        let name = match method {
            "tools/call" => params.get("name"),
            "resources/read" => params.get("uri"),
            _ => None,
        };
        if let Some(name) = name.and_then(Value::as_str) {
            check_header(headers, "mcp-name", name)?;
        }
        let elicits = meta.and_then(|meta| meta.get(CAPABILITIES_KEY)?.get("elicitation")).is_some();
        Ok(Self::Stateless { elicits })
    }

    /// Returns the protocol of a client that reads no stream: the server cannot send it a request.
    pub(super) fn without_stream(self) -> Self {
        match self {
            Self::Handshake { .. } => Self::Handshake { elicits: false },
            stateless => stateless,
        }
    }

    /// Adds the members that a complete result has in this version.
    pub(super) fn complete(self, mut result: Value) -> Value {
        if let (Self::Stateless { .. }, Some(result)) = (self, result.as_object_mut()) {
            result.entry("resultType").or_insert_with(|| "complete".into());
        }
        result
    }

    /// Adds the members about caching. Results are never shared between callers.
    pub(super) fn cached(self, mut result: Value) -> Value {
        if let (Self::Stateless { .. }, Some(result)) = (self, result.as_object_mut()) {
            result.insert("ttlMs".to_owned(), 0.into());
            result.insert("cacheScope".to_owned(), "private".into());
        }
        result
    }
}

pub(super) fn supported_versions() -> Vec<&'static str> {
    [STATELESS_VERSION].into_iter().chain(HANDSHAKE_VERSIONS).collect()
}

/// Returns the version of a handshake: the requested one if it is served, else the newest one.
pub(super) fn handshake_version(requested: &str) -> &'static str {
    let [newest, ..] = HANDSHAKE_VERSIONS;
    HANDSHAKE_VERSIONS.into_iter().find(|version| *version == requested).unwrap_or(newest)
}

pub(super) fn session_id(elicits: bool) -> &'static str {
    let [eliciting, other] = SESSION_IDS;
    if elicits { eliciting } else { other }
}

fn unsupported(version: &str) -> Failure {
    let requested: String = version.chars().take(EXCERPT_CHARS).collect();
    let data = json!({ "supported": supported_versions(), "requested": requested });
    Failure { code: UNSUPPORTED_VERSION, message: "the protocol version is not supported".to_owned(), data }
}

/// Returns a header. None: it is missing.
fn header(headers: &HeaderMap, name: &str) -> Result<Option<String>, Failure> {
    let mismatch = |problem: &str| Failure::new(HEADER_MISMATCH, format!("the header {name} {problem}"));
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch("appears twice"));
    }
    let text = value.to_str().map_err(|_| mismatch("has invalid characters"))?;
    let encoded = text.strip_prefix("=?base64?").and_then(|text| text.strip_suffix("?="));
    let Some(encoded) = encoded else { return Ok(Some(text.to_owned())) };
    let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.map(Some).ok_or_else(|| mismatch("is not Base64 of a text"))
}

fn check_header(headers: &HeaderMap, name: &str, expected: &str) -> Result<(), Failure> {
    if header(headers, name)?.as_deref() == Some(expected) {
        return Ok(());
    }
    Err(Failure::new(HEADER_MISMATCH, format!("the header {name} is missing or differs from the message")))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    fn params(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_message_is_a_request_a_notification_or_a_response() {
        let read = |value: Value| read(value).map(|sent| sent.message).map_err(|failure| failure.code);
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let expected = Message::Request { method: "ping".to_owned(), params: Map::new() };
        assert_eq!(read(request), Ok(expected));
        assert_eq!(read(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})), Ok(Message::Notification));
        let response = json!({"jsonrpc": "2.0", "id": "a", "result": {"action": "accept"}});
        assert_eq!(read(response), Ok(Message::Response { result: json!({"action": "accept"}) }));
        let error = json!({"jsonrpc": "2.0", "id": "a", "error": {"code": 1, "message": "no"}});
        assert_eq!(read(error), Ok(Message::Response { result: Value::Null }));
        for bad in [
            json!([]),
            json!({"id": 1, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1}),
            json!({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": {}, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": 2}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}),
            json!({"jsonrpc": "2.0", "result": {}}),
        ] {
            assert_eq!(read(bad.clone()), Err(INVALID_REQUEST), "{bad}");
        }
    }

    #[test]
    fn the_session_of_a_handshake_states_whether_the_client_elicits() {
        let of = |pairs: &[(&'static str, &'static str)]| Protocol::of(&headers(pairs), "tools/call", &Map::new());
        assert_eq!(of(&[]), Ok(Protocol::Handshake { elicits: false }));
        assert_eq!(of(&[("mcp-session-id", session_id(true))]), Ok(Protocol::Handshake { elicits: true }));
        assert_eq!(of(&[("mcp-session-id", session_id(false))]), Ok(Protocol::Handshake { elicits: false }));
        assert_eq!(of(&[("mcp-protocol-version", "2025-06-18")]), Ok(Protocol::Handshake { elicits: false }));
        assert_eq!(of(&[("mcp-protocol-version", "1900-01-01")]).unwrap_err().code, UNSUPPORTED_VERSION);
        assert_eq!((handshake_version("2025-06-18"), handshake_version("1900-01-01")), ("2025-06-18", "2025-11-25"));
    }

    #[test]
    fn the_headers_of_a_stateless_request_repeat_its_parts() {
        let call = params(json!({"name": "größe", "_meta": {
            VERSION_KEY: STATELESS_VERSION, CAPABILITIES_KEY: {"elicitation": {"form": {}}},
        }}));
        let of = |pairs: &[(&'static str, &'static str)]| Protocol::of(&headers(pairs), "tools/call", &call);
        let version = ("mcp-protocol-version", STATELESS_VERSION);
        let (method, name) = (("mcp-method", "tools/call"), ("mcp-name", "=?base64?Z3LDtsOfZQ==?="));
        assert_eq!(of(&[version, method, name]), Ok(Protocol::Stateless { elicits: true }));
        for bad in [
            &[method, name][..],
            &[version, name],
            &[version, method],
            &[version, ("mcp-method", "tools/list"), name],
            &[version, method, ("mcp-name", "other")],
            &[version, method, ("mcp-name", "=?base64?*?=")],
            &[("mcp-protocol-version", "2025-11-25"), method, name],
        ] {
            assert_eq!(of(bad).unwrap_err().code, HEADER_MISMATCH, "{bad:?}");
        }
        let old = params(json!({"_meta": {VERSION_KEY: "1900-01-01"}}));
        let error = Protocol::of(&headers(&[version]), "tools/list", &old).unwrap_err();
        assert_eq!((error.code, &error.data["requested"]), (UNSUPPORTED_VERSION, &json!("1900-01-01")));
    }

    #[test]
    fn results_of_stateless_clients_state_their_type_and_their_caching() {
        let (stateless, handshake) = (Protocol::Stateless { elicits: false }, Protocol::Handshake { elicits: true });
        let expected = json!({"ttlMs": 0, "cacheScope": "private", "resultType": "complete"});
        assert_eq!(stateless.complete(stateless.cached(json!({}))), expected);
        assert_eq!(handshake.complete(handshake.cached(json!({}))), json!({}));
        let waits = json!({"resultType": "input_required"});
        assert_eq!(stateless.complete(waits.clone()), waits);
        assert_eq!(handshake.without_stream(), Protocol::Handshake { elicits: false });
    }
}
