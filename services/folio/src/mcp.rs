//! `folio mcp`: MCP on standard input and output, for clients that start a program. It forwards each message to `/mcp` of the
//! server with the token of commands, and has no behaviour of its own.

use std::io::Write as _;
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tonic::body::Body;
use tonic::codegen::http::header::{ACCEPT, CONTENT_TYPE};
use tonic::codegen::http::{HeaderName, HeaderValue, Request, Response, StatusCode};

use crate::client::{Client, ServerArguments};

/// Maximum size of a message of the client in bytes: that of requests of the server.
const LINE_BYTES: usize = 4 * 1024 * 1024;
/// Maximum size in bytes of a response, or of an event of a stream.
const RESPONSE_BYTES: usize = 16 * 1024 * 1024;
/// Maximum number of messages that wait for their responses.
const IN_FLIGHT_MAX: usize = 32;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
}

/// Forwards messages until the end of the input, and waits for the responses in flight.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let bridge = Bridge { client: arguments.server.connect().await?, session: Mutex::new(None) };
    let bridge = &bridge;
    lines(BufReader::new(tokio::io::stdin()))
        .map(|line| async move { bridge.forward(line?).await })
        .buffer_unordered(IN_FLIGHT_MAX)
        .try_for_each(|()| std::future::ready(Ok(())))
        .await
}

/// Returns the lines that are not blank.
fn lines(input: impl AsyncBufRead + Unpin) -> impl Stream<Item = Result<String>> {
    futures::stream::unfold(input, |mut input| async move {
        let line = read_line(&mut input).await.transpose()?;
        Some((line, input))
    })
}

/// Returns the next line that is not blank. None: the input has ended.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<String>> {
    loop {
        let mut line = Vec::new();
        let mut bounded = (&mut *input).take(LINE_BYTES as u64 + 1);
        bounded.read_until(b'\n', &mut line).await.context("cannot read the input")?;
        if line.is_empty() {
            return Ok(None);
        }
        anyhow::ensure!(line.len() <= LINE_BYTES, "a message has more than {LINE_BYTES} bytes");
        let line = String::from_utf8(line).context("a message is not UTF-8")?;
        if !line.trim().is_empty() {
            return Ok(Some(line.trim().to_owned()));
        }
    }
}

struct Bridge {
    client: Client,
    /// The id of the session that the server returned.
    session: Mutex<Option<HeaderValue>>,
}

impl Bridge {
    /// Forwards a message, and writes its responses as lines. A refusal of the server becomes an error of JSON-RPC.
    async fn forward(&self, line: String) -> Result<()> {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let mut request = Request::post("/mcp").body(Body::new(line))?;
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.extend(repeated_parts(&message));
        let session = self.session.lock().ok().and_then(|session| session.clone());
        headers.extend(session.map(|session| (SESSION_ID, session)));
        let written = match self.client.send(request).await {
            Ok(response) => self.write_response(response).await,
            Err(error) => Err(error.into()),
        };
        match (written, message.get("id").filter(|_| message.get("method").is_some())) {
            (Err(error), Some(id)) => write(&failure(id, &format!("{error:#}"))),
            (Err(error), None) => {
                crate::terminal::note(&format!("{error:#}"));
                Ok(())
            }
            (Ok(()), _) => Ok(()),
        }
    }

    async fn write_response(&self, response: Response<Body>) -> Result<()> {
        let (head, mut body) = response.into_parts();
        if let (Some(id), Ok(mut session)) = (head.headers.get(SESSION_ID), self.session.lock()) {
            *session = Some(id.clone());
        }
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (is_stream, is_json) =
            (content_type.starts_with("text/event-stream"), content_type.starts_with("application/json"));
        let (mut buffer, mut events) = (Vec::new(), Events::default());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            buffer.extend_from_slice(&data);
            anyhow::ensure!(buffer.len() <= RESPONSE_BYTES, "a response has more than {RESPONSE_BYTES} bytes");
            if is_stream {
                for event in events.take(&mut buffer)? {
                    write(&event)?;
                }
            }
        }
        let text = String::from_utf8(buffer).context("a response is not UTF-8")?;
        match (is_stream, is_json) {
            (true, _) => Ok(()),
            (_, true) => write(&text),
            _ if head.status == StatusCode::ACCEPTED => Ok(()),
            _ => bail!("the server refused the message: {}", problem(head.status, &text)),
        }
    }
}

/// Returns the headers by which a request without a handshake repeats its parts. Other messages have none.
fn repeated_parts(message: &Value) -> Vec<(HeaderName, HeaderValue)> {
    let params = message.get("params");
    let version = params.and_then(|params| params.get("_meta")?.get("io.modelcontextprotocol/protocolVersion"));
    let Some(version) = version.and_then(Value::as_str) else { return Vec::new() };
    let method = message.get("method").and_then(Value::as_str).unwrap_or_default();
    let name = match method {
        "tools/call" => params.and_then(|params| params.get("name")),
        "resources/read" => params.and_then(|params| params.get("uri")),
        _ => None,
    };
    let parts = [(VERSION, Some(version)), (METHOD, Some(method)), (NAME, name.and_then(Value::as_str))];
    parts.into_iter().filter_map(|(header, text)| Some((header, header_value(text?)?))).collect()
}

/// Returns a text as the value of a header: itself, or Base64 between marks if it is not plain ASCII.
fn header_value(text: &str) -> Option<HeaderValue> {
    let is_plain = text.trim() == text && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let value = match is_plain && !text.starts_with("=?base64?") {
        true => text.to_owned(),
        false => format!("=?base64?{}?=", STANDARD.encode(text)),
    };
    HeaderValue::from_str(&value).ok()
}

/// The events of a stream, of which only the data is used.
#[derive(Debug, Default)]
struct Events {
    /// The data of the event whose end was not received.
    data: String,
}

impl Events {
    /// Removes the complete lines from the buffer. Returns the data of the events that they complete.
    fn take(&mut self, buffer: &mut Vec<u8>) -> Result<Vec<String>> {
        let mut complete = Vec::new();
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let line = String::from_utf8(line).context("an event is not UTF-8")?;
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() && !self.data.is_empty() {
                complete.push(std::mem::take(&mut self.data));
            } else if let Some(data) = line.strip_prefix("data:") {
                self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
                anyhow::ensure!(self.data.len() <= RESPONSE_BYTES, "an event has more than {RESPONSE_BYTES} bytes");
            }
        }
        Ok(complete)
    }
}

/// Returns the reason of a refusal for people.
fn problem(status: StatusCode, body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let detail = body.get("detail").and_then(Value::as_str);
    detail.map_or_else(|| status.to_string(), |detail| format!("{detail} ({})", status.as_u16()))
}

fn failure(id: &Value, message: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32_603, "message": message } }).to_string()
}

/// Writes a message as one line.
fn write(message: &str) -> Result<()> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{message}")?;
    Ok(output.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(message: &Value) -> Vec<(String, String)> {
        let text =
            |(name, value): (HeaderName, HeaderValue)| (name.as_str().to_owned(), value.to_str().unwrap().to_owned());
        repeated_parts(message).into_iter().map(text).collect()
    }

    #[test]
    fn a_request_without_a_handshake_repeats_its_parts_in_headers() {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        let call = json!({"method": "tools/call", "params": {"name": "größe", "_meta": meta}});
        let expected = [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "=?base64?Z3LDtsOfZQ==?="),
        ];
        assert_eq!(texts(&call), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(texts(&json!({"method": "tools/call", "params": {"name": "a"}})).is_empty());
        assert_eq!(header_value("a b").unwrap(), "a b");
        assert_ne!(header_value("=?base64?literal?=").unwrap(), "=?base64?literal?=");
    }

    #[test]
    fn events_are_complete_with_their_blank_line() {
        let (mut events, mut buffer) = (Events::default(), b": ping\n\ndata: {\"a\"".to_vec());
        assert!(events.take(&mut buffer).unwrap().is_empty());
        buffer.extend_from_slice(b":1}\r\n\r\nevent: message\ndata:{}\n");
        assert_eq!(events.take(&mut buffer).unwrap(), ["{\"a\":1}"]);
        buffer.extend_from_slice(b"\n");
        assert_eq!(events.take(&mut buffer).unwrap(), ["{}"]);
        assert!(buffer.is_empty());
    }

    #[tokio::test]
    async fn lines_are_bounded_and_blank_lines_are_skipped() {
        let mut input = BufReader::new(&b"\n {\"a\":1} \n{}"[..]);
        assert_eq!(read_line(&mut input).await.unwrap().as_deref(), Some("{\"a\":1}"));
        assert_eq!(read_line(&mut input).await.unwrap().as_deref(), Some("{}"));
        assert_eq!(read_line(&mut input).await.unwrap(), None);
        let large = vec![b'x'; LINE_BYTES + 1];
        assert!(read_line(&mut BufReader::new(large.as_slice())).await.is_err());
    }

    #[test]
    fn a_refusal_is_an_error_with_its_reason() {
        assert_eq!(problem(StatusCode::UNAUTHORIZED, r#"{"detail": "invalid token"}"#), "invalid token (401)");
        assert_eq!(problem(StatusCode::BAD_GATEWAY, "<html>"), "502 Bad Gateway");
        let error: Value = serde_json::from_str(&failure(&json!(7), "no")).unwrap();
        assert_eq!((&error["id"], &error["error"]["message"]), (&json!(7), &json!("no")));
    }
}
