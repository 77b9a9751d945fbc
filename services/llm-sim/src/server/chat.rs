//! Chat completions.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use axum::body::Bytes;
use axum::extract::{ConnectInfo, State as Shared};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;

use super::delivery::{BrokenPart, Delivery};
use super::routes::{error, record, unauthorized};
use super::{Source, State};
use crate::answer::Answer;
use crate::chunks::Frame;
use crate::connection::Reset;
use crate::faults::FaultTarget;
use crate::pace::Pacing;
use crate::record::Outcome;
use crate::request::ChatRequest;
use crate::script::Decision;

/// Tokens per chunk of a flood.
const FLOOD_TOKENS: usize = 512;

struct Exchange {
    delivery: Delivery,
    number: u64,
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
        let delivery = Delivery { state, reset, entry, stream };
        let exchange = Exchange { delivery, number, include_usage, model, bytes, constant: true, pacing };
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
    let pacing = state.pacing;
    match decided {
        Ok((request, decision)) => {
            let ChatRequest { stream, include_usage, model, bytes, .. } = request;
            let delivery = Delivery { state, reset, entry, stream };
            let exchange = Exchange { delivery, number, include_usage, model, bytes, constant: false, pacing };
            exchange.answer(decision).await
        }
        Err(problem) => Delivery { state, reset, entry, stream: false }.refuse(&problem),
    }
}

impl Exchange {
    async fn answer(mut self, mut decision: Decision) -> Response {
        let fault = self.delivery.state.next_fault(FaultTarget::Chat).or_else(|| decision.fault.clone());
        let (delivery, broken) = match self.delivery.begin(fault).await {
            Ok(begun) => begun,
            Err(response) => return *response,
        };
        self.delivery = delivery;
        if let Some(bytes) = broken.flood {
            decision.answer = Answer::text("flood ".repeat(bytes.div_ceil(6)));
            self.pacing = Pacing { tokens_per_second: 0.0, chunk_tokens: FLOOD_TOKENS };
        }
        if self.delivery.stream { self.streamed(&decision, broken) } else { self.complete_body(&decision, broken) }
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

    fn streamed(self, decision: &Decision, broken: BrokenPart) -> Response {
        let BrokenPart { mid_stream, has_no_finish, .. } = broken;
        let id = format!("chatcmpl-{}", self.number);
        let frame = self.frame(&id);
        let (mut chunks, before_finish) = match mid_stream {
            None if self.constant && !has_no_finish => (self.prepared(&frame, decision), 0),
            _ => frame.stream(&decision.answer, !has_no_finish),
        };
        chunks.extend(frame.tail(&decision.answer));
        // A fault whose `after_chunks` exceeds the number of chunks occurs before the finish reason.
        let mid_stream = mid_stream.map(|(after, fault)| (after.min(before_finish), fault));
        self.delivery.events(chunks, self.pacing.pause(), mid_stream)
    }

    /// Returns the chunks of a constant response. They are cached for the last requested model.
    fn prepared(&self, frame: &Frame<'_>, decision: &Decision) -> Vec<Bytes> {
        let mut cache = self.delivery.state.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        match cache.as_ref().filter(|cached| cached.model == self.model) {
            Some(cached) => cached.chunks.clone(),
            None => {
                let (chunks, _) = frame.stream(&decision.answer, true);
                *cache = Some(CachedChunks { model: self.model.clone(), chunks: chunks.clone() });
                chunks
            }
        }
    }

    fn complete_body(self, decision: &Decision, broken: BrokenPart) -> Response {
        let id = format!("chatcmpl-{}", self.number);
        let body = self.frame(&id).complete_body(&decision.answer, !broken.has_no_finish).to_string();
        self.delivery.json(body, broken.mid_stream)
    }
}
