//! Spans of model calls. A span contains all attempts and the complete answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use folio_trace::{CONTENT, record_error, set_list};
use folio_types::message::Usage;
use futures::Stream;
use tracing::field::Empty;
use tracing::{Instrument as _, Level, Span};

use super::Entry;
use super::content;
use super::endpoint::Endpoint;
use crate::model::{ModelError, ModelEvent, ModelReply, ModelRequest, ModelStream};

/// Creates the span of a model call. `operation` is a name of the semantic conventions for generative AI.
fn span(operation: &'static str, endpoint: &Endpoint, model: &str) -> Span {
    let (provider, model) = (endpoint.label(&endpoint.name), endpoint.label(model));
    tracing::info_span!(
        "model",
        otel.name = format_args!("{operation} {model}"),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = operation,
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.request.stream = Empty,
        gen_ai.response.model = Empty,
        gen_ai.response.time_to_first_chunk = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        "error.type" = Empty,
    )
}

/// Runs a call of an embedding or rerank model in a span. `usage` returns the usage of its answer.
pub(super) async fn retrieval<T>(
    operation: &'static str,
    entry: &Entry,
    call: impl Future<Output = Result<T, ModelError>>,
    usage: impl FnOnce(&T) -> Usage,
) -> Result<T, ModelError> {
    let span = span(operation, &entry.endpoint, &entry.info.name);
    let answer = call.instrument(span.clone()).await;
    match &answer {
        Ok(answer) => {
            span.record("gen_ai.usage.input_tokens", i64::try_from(usage(answer).input_tokens).unwrap_or(i64::MAX));
        }
        Err(error) => record_error(&span, error.kind()),
    }
    answer
}

/// Runs a non-streaming call in a span.
pub(super) async fn non_streaming(
    endpoint: &Endpoint,
    request: &ModelRequest,
    call: impl Future<Output = Result<ModelReply, ModelError>>,
) -> Result<ModelReply, ModelError> {
    let span = span("chat", endpoint, &request.model);
    let answer = call.instrument(span.clone()).await;
    span.in_scope(|| {
        record_request(request);
        match &answer {
            Ok(reply) => answered(&span, reply),
            Err(error) => record_error(&span, error.kind()),
        }
    });
    answer
}

/// Runs a streaming call in a span, which ends with the stream.
pub(super) async fn streamed(
    endpoint: &Endpoint,
    request: &ModelRequest,
    call: impl Future<Output = Result<ModelStream, ModelError>>,
) -> Result<ModelStream, ModelError> {
    let (span, began) = (span("chat", endpoint, &request.model), Instant::now());
    span.record("gen_ai.request.stream", true);
    let stream = call.instrument(span.clone()).await;
    span.in_scope(|| record_request(request));
    match stream {
        Ok(stream) => {
            // The stream is returned after its first token.
            span.record("gen_ai.response.time_to_first_chunk", began.elapsed().as_secs_f64());
            Ok(Box::pin(TracedStream { stream, span, ended: false }))
        }
        Err(error) => {
            record_error(&span, error.kind());
            Err(error)
        }
    }
}

struct TracedStream {
    stream: ModelStream,
    span: Span,
    ended: bool,
}

impl Stream for TracedStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.stream.as_mut().poll_next(context));
        match &item {
            Some(Ok(ModelEvent::Done(reply))) => {
                self.span.in_scope(|| answered(&self.span, reply));
                self.ended = true;
            }
            Some(Err(error)) => {
                record_error(&self.span, error.kind());
                self.ended = true;
            }
            _ => {}
        }
        Poll::Ready(item)
    }
}

impl Drop for TracedStream {
    fn drop(&mut self) {
        if !self.ended {
            self.span.record("error.type", "cancelled");
        }
        // Enters the span again, so that it ends now and not when the answer started.
        self.span.in_scope(|| ());
    }
}

fn answered(span: &Span, reply: &ModelReply) {
    let Usage { input_tokens, cached_input_tokens, output_tokens, .. } = reply.usage;
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    span.record("gen_ai.response.model", reply.model.as_str())
        .record("gen_ai.usage.input_tokens", count(input_tokens))
        .record("gen_ai.usage.cache_read.input_tokens", count(cached_input_tokens))
        .record("gen_ai.usage.output_tokens", count(output_tokens));
    if let Some(finish) = reply.finish {
        set_list(span, "gen_ai.response.finish_reasons", &[content::finish(finish)]);
    }
    tracing::event!(
        target: CONTENT,
        Level::INFO,
        gen_ai.output.messages = %content::output(reply),
        "gen_ai.client.inference.operation.details"
    );
}

/// Records the request, only if content is captured.
fn record_request(request: &ModelRequest) {
    tracing::event!(
        target: CONTENT,
        Level::INFO,
        gen_ai.system_instructions = %content::instructions(&request.system, &request.state),
        gen_ai.input.messages = %content::input(&request.messages),
        "gen_ai.client.inference.operation.details"
    );
}
