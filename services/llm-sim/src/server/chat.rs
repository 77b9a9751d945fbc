//! Chat completions.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State as Shared};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::Value;

use super::routes::{error, record, unauthorized};
use super::{Source, State};
use crate::answer::Answer;
use crate::body::{GARBAGE, Stream};
use crate::chunks::Frame;
use crate::connection::Reset;
use crate::faults::Fault;
use crate::pace::Pacing;
use crate::record::{Entry, Outcome};
use crate::request::ChatRequest;
use crate::script::Decision;

/// Tokens per chunk of a flood.
const FLOOD_TOKENS: usize = 512;

struct Exchange {
    state: Arc<State>,
    reset: Reset,
    entry: Entry,
    number: u64,
    stream: bool,
    include_usage: bool,
    model: String,
    bytes: usize,
    /// True if every request gets this response.
    constant: bool,
    pacing: Pacing,
}

/// Cached chunks of a constant response.
#[derive(Debug)]
pub(super) struct CachedChunks {
    model: String,
    chunks: Vec<Bytes>,
}

/// The parsed fields of a request if the response is constant.
#[derive(Deserialize)]
struct RequestHead {
    #[serde(default)]
    model: String,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Option<StreamOptions>,
}

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: bool,
}

/// `POST /v1/chat/completions`.
pub(super) async fn complete(
    Shared(state): Shared<Arc<State>>,
    ConnectInfo(reset): ConnectInfo<Reset>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Some(refused) = unauthorized(&state, &headers) {
        record(&state, "/v1/chat/completions", Value::Null, &headers).close(Outcome::Failed("401".to_owned()));
        return refused;
    }
    let number = state.chats.fetch_add(1, Ordering::Relaxed) + 1;
    let source = state.source();
    if let (Source::Script(script), false) = (source.as_ref(), state.record.is_enabled())
        && let Some(decision) = script.constant()
        && let Ok(head) = serde_json::from_slice::<RequestHead>(&body)
    {
        let entry = record(&state, "/v1/chat/completions", Value::Null, &headers);
        let include_usage = head.stream_options.is_some_and(|options| options.include_usage);
        let (stream, model, bytes, pacing) = (head.stream, head.model, body.len(), state.pacing);
        let exchange =
            Exchange { state, reset, entry, number, stream, include_usage, model, bytes, constant: true, pacing };
        return exchange.answer(decision).await;
    }
    let value: Value = match serde_json::from_slice(&body) {
        Ok(value) => value,
        Err(problem) => {
            record(&state, "/v1/chat/completions", Value::Null, &headers).close(Outcome::Failed("not JSON".to_owned()));
            let message = format!("the body is not JSON: {problem}");
            return error(StatusCode::BAD_REQUEST, "invalid_request_error", &message);
        }
    };
    let parsed = ChatRequest::parse(&value, body.len());
    let entry = record(&state, "/v1/chat/completions", value, &headers);
    let decided = parsed.and_then(|request| {
        let decision = source.decide(&request)?;
        Ok((request, decision))
    });
    match decided {
        Ok((request, decision)) => {
            let ChatRequest { stream, include_usage, model, bytes, .. } = request;
            let (constant, pacing) = (false, state.pacing);
            let exchange =
                Exchange { state, reset, entry, number, stream, include_usage, model, bytes, constant, pacing };
            exchange.answer(decision).await
        }
        Err(problem) => {
            entry.close(Outcome::Failed(problem.clone()));
            error(StatusCode::BAD_REQUEST, "invalid_request_error", &problem)
        }
    }
}

impl Exchange {
    fn fault(&self, decision: &Decision) -> Option<Fault> {
        let mut faults = self.state.faults.lock().unwrap_or_else(PoisonError::into_inner);
        faults.next().or_else(|| decision.fault.clone())
    }

    async fn answer(mut self, mut decision: Decision) -> Response {
        let mut wait = {
            let mut rng = self.state.rng.lock().unwrap_or_else(PoisonError::into_inner);
            self.state.latency.sample(&mut *rng)
        };
        let mut mid_stream = None;
        let mut finish = true;
        match self.fault(&decision) {
            Some(Fault::Status { code, retry_after, body }) => return self.status(code, retry_after, body),
            Some(Fault::Reset { after_chunks: 0 }) => return self.reset_now(),
            Some(Fault::Garbage { after_chunks: 0 }) => return self.garbage(),
            Some(Fault::Hang { after_chunks: 0 }) => {
                self.entry.set_waiting(true);
                self.state.stopping.cancelled().await;
                return error(StatusCode::SERVICE_UNAVAILABLE, "server_error", "stopping");
            }
            Some(Fault::Hold { gate, after_chunks: 0 }) => {
                self.entry.set_waiting(true);
                tokio::select! {
                    () = self.state.gates.pass(&gate) => {}
                    () = self.state.stopping.cancelled() => {}
                }
                self.entry.set_waiting(false);
            }
            Some(Fault::SlowStart { ms }) => wait += Duration::from_millis(ms),
            Some(Fault::NoFinish) => finish = false,
            Some(Fault::Flood { bytes }) => {
                decision.answer = Answer::text("flood ".repeat(bytes.div_ceil(6)));
                self.pacing = Pacing { tokens_per_second: 0.0, chunk_tokens: FLOOD_TOKENS };
            }
            Some(fault) => mid_stream = fault.after_chunks().map(|after| (after, fault)),
            None => {}
        }
        if !wait.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.state.stopping.cancelled() => {}
            }
        }
        if self.stream {
            self.streamed(&decision, mid_stream, finish)
        } else {
            self.complete_body(&decision, mid_stream, finish).await
        }
    }

    fn frame<'a>(&'a self, id: &'a str) -> Frame<'a> {
        Frame {
            id,
            model: &self.model,
            chunk_bytes: self.pacing.chunk_bytes(),
            include_usage: self.include_usage,
            prompt_bytes: self.bytes,
        }
    }

    fn streamed(self, decision: &Decision, mid_stream: Option<(usize, Fault)>, finish: bool) -> Response {
        let id = format!("chatcmpl-{}", self.number);
        let frame = self.frame(&id);
        let (mut chunks, before_finish) = match mid_stream {
            None if self.constant && finish => (self.prepared(&frame, decision), 0),
            _ => frame.stream(&decision.answer, finish),
        };
        chunks.extend(frame.tail(&decision.answer));
        // A fault whose `after_chunks` exceeds the number of chunks occurs before the finish reason.
        let mid_stream = mid_stream.map(|(after, fault)| (after.min(before_finish), fault));
        let stream = Stream {
            chunks,
            pause: self.pacing.pause(),
            mid_stream,
            entry: self.entry,
            gates: Arc::clone(&self.state.gates),
            reset: self.reset,
            stopping: self.state.stopping.clone(),
        };
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
        (headers, stream.into_body()).into_response()
    }

    /// Returns the chunks of a constant response. They are cached for the last requested model.
    fn prepared(&self, frame: &Frame<'_>, decision: &Decision) -> Vec<Bytes> {
        let mut cache = self.state.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        match cache.as_ref().filter(|cached| cached.model == self.model) {
            Some(cached) => cached.chunks.clone(),
            None => {
                let (chunks, _) = frame.stream(&decision.answer, true);
                *cache = Some(CachedChunks { model: self.model.clone(), chunks: chunks.clone() });
                chunks
            }
        }
    }

    /// Sends a response as one body. A fault within the response occurs at half of the body.
    async fn complete_body(self, decision: &Decision, mid_stream: Option<(usize, Fault)>, finish: bool) -> Response {
        let id = format!("chatcmpl-{}", self.number);
        let body = self.frame(&id).complete_body(&decision.answer, finish).to_string();
        match mid_stream {
            None => {
                self.entry.close(Outcome::Finished);
                ([(header::CONTENT_TYPE, "application/json")], body).into_response()
            }
            Some((_, fault)) => {
                let (first, second) = body.split_at(body.floor_char_boundary(body.len() / 2));
                let stream = Stream {
                    chunks: vec![Bytes::from(first.to_owned()), Bytes::from(second.to_owned())],
                    pause: Duration::ZERO,
                    mid_stream: Some((1, fault)),
                    entry: self.entry,
                    gates: Arc::clone(&self.state.gates),
                    reset: self.reset,
                    stopping: self.state.stopping.clone(),
                };
                ([(header::CONTENT_TYPE, "application/json")], stream.into_body()).into_response()
            }
        }
    }

    fn status(self, code: u16, retry_after: Option<u64>, body: Option<String>) -> Response {
        let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.entry.close(Outcome::Failed(format!("status {code}")));
        let kind = if code == 429 { "rate_limit_error" } else { "server_error" };
        let mut response = match body {
            Some(body) => (status, body).into_response(),
            None => error(status, kind, &format!("injected fault: {status}")),
        };
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }

    fn reset_now(self) -> Response {
        self.reset.reset();
        self.entry.close(Outcome::Failed("reset".to_owned()));
        StatusCode::OK.into_response()
    }

    fn garbage(self) -> Response {
        self.entry.close(Outcome::Failed("garbage".to_owned()));
        let kind = if self.stream { "text/event-stream" } else { "application/json" };
        ([(header::CONTENT_TYPE, kind)], Body::from(GARBAGE)).into_response()
    }
}
