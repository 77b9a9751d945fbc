//! A sequence of requests to a server: the handshake if the server has one, and the requests after it.

use std::time::Duration;

use folio_llm::stream::EventSplitter;
use folio_tools::mcp::McpFailure;
use folio_types::Secret;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use serde_json::{Value, json};

use crate::message::{self, Answer, STATELESS_VERSION};

const VERSION: &str = "mcp-protocol-version";
const SESSION_ID: &str = "mcp-session-id";
/// Maximum size of a response, in bytes.
// proto: none "a longer result of a tool is cut to 64 KiB"
const RESPONSE_BYTES: usize = 1024 * 1024;
/// Maximum time for the end of a session, which nothing depends on.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// The version of the protocol that a server speaks.
enum Mode {
    /// The version is unknown: the next request is `initialize`.
    Opening,
    Handshake {
        version: HeaderValue,
        session: Option<HeaderValue>,
    },
    Stateless,
}

pub(crate) struct Session<'a> {
    http: &'a Client,
    url: Url,
    token: Option<Secret>,
    mode: Mode,
    last_id: u64,
}

impl<'a> Session<'a> {
    /// Opens a session. A server that refuses `initialize` is addressed in the stateless version.
    pub(crate) async fn open(http: &'a Client, url: Url, token: Option<Secret>) -> Result<Self, McpFailure> {
        let mut session = Self { http, url, token, mode: Mode::Opening, last_id: 0 };
        session.shake_hands().await.map_err(McpFailure::before_the_call)?;
        Ok(session)
    }

    async fn shake_hands(&mut self) -> Result<(), McpFailure> {
        let (answer, session) = self.exchange("initialize", message::initialize()).await?;
        let Answer::Result(result) = answer else {
            self.mode = Mode::Stateless;
            return Ok(());
        };
        let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let version =
            HeaderValue::from_str(version).map_err(|_| McpFailure::Refused("its version is malformed".into()))?;
        self.mode = Mode::Handshake { version, session };
        let initialized = message::request(None, "notifications/initialized", &Value::Null);
        let response = sent(self.post("notifications/initialized", &initialized)).await?;
        accepted(response.status())
    }

    /// Sends a request once, and returns its result.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Value, McpFailure> {
        match self.exchange(method, params).await?.0 {
            Answer::Result(result) => Ok(result),
            Answer::Error(error) => Err(McpFailure::Refused(error)),
        }
    }

    /// Ends the session of a server that has one.
    pub(crate) async fn close(self) {
        if let Mode::Handshake { version, session: Some(session) } = &self.mode {
            let request = self.http.delete(self.url.clone()).header(VERSION, version).header(SESSION_ID, session);
            // A server ends abandoned sessions by itself.
            let _ = self.authorized(request).timeout(CLOSE_TIMEOUT).send().await;
        }
    }

    /// Sends a request once, and returns the answer with the id of the session that it opened.
    async fn exchange(&mut self, method: &str, params: Value) -> Result<(Answer, Option<HeaderValue>), McpFailure> {
        self.last_id = self.last_id.saturating_add(1);
        let id = self.last_id;
        let params = if matches!(self.mode, Mode::Stateless) { message::with_version(params) } else { params };
        let mut request = self.post(method, &message::request(Some(id), method, &params));
        if let (Mode::Stateless, Some(name)) = (&self.mode, params.get("name").and_then(Value::as_str)) {
            request = request.header("mcp-name", name);
        }
        let response = sent(request).await?;
        let (status, session) = (response.status(), response.headers().get(SESSION_ID).cloned());
        match (answer(response, id).await?, accepted(status)) {
            // A server states the reason of a refused request in its body.
            (Some(answer), _) if status.is_success() || status.is_client_error() => Ok((answer, session)),
            (_, Err(failure)) => Err(failure),
            (_, Ok(())) => Err(McpFailure::Unknown("the response contains no answer to the request".into())),
        }
    }

    fn post(&self, method: &str, message: &Value) -> RequestBuilder {
        let request = self
            .http
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(message.to_string());
        let request = match &self.mode {
            Mode::Opening => request,
            Mode::Stateless => request.header(VERSION, STATELESS_VERSION).header("mcp-method", method),
            Mode::Handshake { version, session } => {
                let request = request.header(VERSION, version);
                session.iter().fold(request, |request, id| request.header(SESSION_ID, id))
            }
        };
        self.authorized(request)
    }

    fn authorized(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.token {
            Some(token) => request.bearer_auth(token.reveal()),
            None => request,
        }
    }
}

/// Sends a request. A connection that was not established sent nothing.
async fn sent(request: RequestBuilder) -> Result<Response, McpFailure> {
    request.send().await.map_err(|error| match (error.is_connect() || error.is_builder(), error.is_timeout()) {
        (true, _) => McpFailure::NotSent("the host is unreachable, or its address is not permitted".into()),
        (_, true) => McpFailure::Unknown("it did not respond in time".into()),
        _ => McpFailure::Unknown("the connection failed before the response".into()),
    })
}

/// Returns the failure that a status means. A server may have executed a request that failed with 5xx, such as a time-out of a
/// proxy.
fn accepted(status: StatusCode) -> Result<(), McpFailure> {
    if status.is_success() {
        Ok(())
    } else if status.is_redirection() {
        Err(McpFailure::Refused(format!("it returned {status}, and redirects are not followed")))
    } else if status.is_client_error() {
        Err(McpFailure::Refused(format!("it returned {status}")))
    } else {
        Err(McpFailure::Unknown(format!("it returned {status}")))
    }
}

/// Reads a response up to the answer to the request with this id. None: the response contains no answer.
async fn answer(mut response: Response, id: u64) -> Result<Option<Answer>, McpFailure> {
    let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut events = media_type.starts_with("text/event-stream").then(EventSplitter::default);
    let (mut body, mut bytes, mut found) = (Vec::new(), 0_usize, None);
    let too_large = |_| McpFailure::Unknown("its response is too large".into());
    loop {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|_| McpFailure::Unknown("the connection failed during the response".into()))?;
        let Some(chunk) = chunk else { break };
        bytes = bytes.saturating_add(chunk.len());
        if bytes > RESPONSE_BYTES {
            return Err(too_large(()));
        }
        let Some(events) = &mut events else {
            body.extend_from_slice(&chunk);
            continue;
        };
        let read = events.feed(&chunk, |data| {
            found = found.take().or_else(|| message::answer(data, id));
            Ok(())
        });
        read.map_err(|_| too_large(()))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    if let Some(events) = &mut events {
        let read = events.end(|data| {
            found = found.take().or_else(|| message::answer(data, id));
            Ok(())
        });
        read.map_err(|_| too_large(()))?;
    }
    Ok(found.or_else(|| message::answer(&body, id)))
}

/// Returns the parameters of `tools/call`.
pub(crate) fn call(tool: &str, arguments: &Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}
