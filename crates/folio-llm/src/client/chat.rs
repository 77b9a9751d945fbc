//! Chat completions, streaming and non-streaming.

use std::sync::Arc;

use bytes::Bytes;
use folio_types::Temperature;
use folio_types::message::Usage;
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::attempt::{Attempt, Attempts};
use super::cut_prompt::{self, fewest_prompt_tokens};
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::openai::{self, Bounds};
use super::refused_parameters::{self, Parameter};
use super::streaming_call::{SentBody, StreamingCall};
use super::{Entry, traced};
use crate::images::text_tokens;
use crate::model::{ModelError, ModelReply, ModelRequest, ModelStream, TimeLimit};
use crate::request::Body;
use crate::stream::{Assembler, EVENT_BYTES_MAX};
use crate::tokens::count_tokens;

pub(super) async fn stream(entry: &Entry, request: &ModelRequest) -> Result<ModelStream, ModelError> {
    traced::streamed(&entry.endpoint, request, connect(entry, request)).await
}

async fn connect(entry: &Entry, request: &ModelRequest) -> Result<ModelStream, ModelError> {
    let call_end = Instant::now() + entry.endpoint.timeouts.call_seconds;
    with_temperature(entry, request, |temperature| open(entry, request, temperature, call_end)).await
}

async fn open(
    entry: &Entry,
    request: &ModelRequest,
    temperature: Option<Temperature>,
    call_end: Instant,
) -> Result<ModelStream, ModelError> {
    let endpoint = &entry.endpoint;
    let (body, images) = body(entry, request, temperature, true)?;
    let permit = endpoint.permit(&request.org, call_end).await?;
    let call = StreamingCall {
        endpoint: Arc::clone(endpoint),
        model: entry.info.name.clone(),
        call_id: request.call_id.clone(),
        body: SentBody { json: Bytes::from(body), images },
        fewest_tokens: fewest_prompt_tokens(request),
        progress: request.progress.clone(),
        call_end,
    };
    call.start(permit).await
}

pub(super) async fn complete(entry: &Entry, request: &ModelRequest) -> Result<ModelReply, ModelError> {
    traced::non_streaming(&entry.endpoint, request, call(entry, request)).await
}

async fn call(entry: &Entry, request: &ModelRequest) -> Result<ModelReply, ModelError> {
    let call_end = Instant::now() + entry.endpoint.timeouts.call_seconds;
    with_temperature(entry, request, |temperature| call_once(entry, request, temperature, call_end)).await
}

async fn call_once(
    entry: &Entry,
    request: &ModelRequest,
    temperature: Option<Temperature>,
    call_end: Instant,
) -> Result<ModelReply, ModelError> {
    let endpoint = &entry.endpoint;
    let (body, (_, image_tokens)) = body(entry, request, temperature, false)?;
    let body = String::from_utf8(body)
        .map_err(serde::ser::Error::custom)
        .and_then(RawValue::from_string)
        .map_err(unserializable)?;
    let _permit = endpoint.permit(&request.org, call_end).await?;
    let mut attempts = Attempts::new(endpoint, call_end, request.progress.clone());
    let fewest = fewest_prompt_tokens(request);
    let attempt = |attempt| non_streaming(endpoint, attempt, (&request.call_id, &body, fewest), call_end);
    let (reply, usage) = attempts.run(attempt).await?;
    Ok(finished(reply, usage, (body.get().as_bytes(), image_tokens), &entry.info.name))
}

/// Makes a call with the temperature of the request, if the endpoint permits it.
async fn with_temperature<T, F>(
    entry: &Entry,
    request: &ModelRequest,
    make: impl Fn(Option<Temperature>) -> F,
) -> Result<T, ModelError>
where
    F: Future<Output = Result<T, ModelError>>,
{
    refused_parameters::call_with(entry, (Parameter::Temperature, request.temperature), make).await
}

/// Returns the body of a request, the bytes of its images, and their tokens.
fn body(
    entry: &Entry,
    request: &ModelRequest,
    temperature: Option<Temperature>,
    stream: bool,
) -> Result<(Vec<u8>, (usize, u64)), ModelError> {
    let body = Body {
        request,
        model: &entry.info.options,
        upstream: entry.info.upstream(),
        output_limit_field: entry.endpoint.output_limit_field,
        stream,
        stream_usage: entry.endpoint.stream_usage,
        temperature,
    };
    Ok((body.write().map_err(unserializable)?, body.images()))
}

fn unserializable(error: serde_json::Error) -> ModelError {
    ModelError::Failed(format!("cannot serialize the request: {error}"))
}

/// Makes one attempt of a non-streaming call.
async fn non_streaming(
    endpoint: &Arc<Endpoint>,
    mut attempt: Attempt,
    (call_id, body, fewest_tokens): (&str, &RawValue, u64),
    call_end: Instant,
) -> Result<(ModelReply, Option<Usage>), Failure> {
    let bounds = Bounds { end: call_end, limit: TimeLimit::WholeCall, body_bytes: 2 * EVENT_BYTES_MAX };
    let answer = openai::client(endpoint, call_id, bounds).chat().create_byot::<_, Box<RawValue>>(body).await;
    attempt.conclude(answer.map_err(|error| openai::failure(endpoint, error)).and_then(|answer| {
        let mut assembler = Assembler::default();
        let assembled = assembler.non_streaming(answer.get()).and_then(|()| assembler.take_reply());
        let reply = assembled.map_err(|error| Failure::invalid_answer(error, &endpoint.key).not_retriable())?;
        cut_prompt::check(fewest_tokens, assembler.read_tokens()).map_err(Failure::refusal)?;
        Ok(reply)
    }))
}

/// Completes a reply: counts the usage if the endpoint did not report it, and sets the model name if it is empty. `request`: the
/// body, and the tokens of its images.
pub(super) fn finished(mut reply: ModelReply, usage: Option<Usage>, request: (&[u8], u64), model: &str) -> ModelReply {
    reply.usage = usage.unwrap_or_else(|| counted(&reply, request));
    if reply.model.is_empty() {
        reply.model = model.to_owned();
    }
    reply
}

fn counted(reply: &ModelReply, (request, image_tokens): (&[u8], u64)) -> Usage {
    let thinking = reply.thinking.iter().map(|block| count_tokens(&block.text));
    let calls = reply.calls.iter().map(|call| count_tokens(&call.name).saturating_add(count_tokens(&call.arguments)));
    Usage {
        input_tokens: std::str::from_utf8(request).map_or(0, text_tokens).saturating_add(image_tokens),
        cached_input_tokens: 0,
        output_tokens: thinking.chain(calls).fold(count_tokens(&reply.text), u64::saturating_add),
        reported: false,
        model_calls: 1,
        credits: 0,
    }
}
