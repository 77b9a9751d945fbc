//! Plain chat completions: a model call without documents, threads and tools.

use std::convert::Infallible;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use folio_operations::completions::{
    Completion, CompletionEvent, CompletionMessage, CompletionRequest, CompletionRole, CreateCompletion,
    StreamCompletion,
};
use folio_types::message::FinishReason;
use folio_types::{Error, Reason, Result};
use futures::{Stream, StreamExt as _};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::endpoint::{Document, DocumentOutput, post};
use super::extract::{Client, Json};
use super::failure::Failure;
use super::reply::Reply;
use super::routes::{Level, Route, org_path, route};
use crate::connect::UNBUFFERED;
use crate::faces::StreamEnd;

/// The temperature of a request that names none.
const TEMPERATURE: f64 = 0.7;
const PLAIN: &str = "text/plain; charset=utf-8";

pub(super) fn routes() -> Vec<Route> {
    vec![
        route::<CreateCompletion>(Level::One, post(org_path!("/llm/run"), complete)),
        route::<CreateCompletion>(Level::One, post("/v0/account/llm/run", complete)),
    ]
}

/// A model call.
#[derive(Debug, Deserialize, ToSchema)]
struct CompletionFields {
    /// The model.
    model: String,
    /// The messages. The last one has the role `user`.
    messages: Vec<MessageFields>,
    /// Maximum tokens of the answer. Default: the maximum of the model.
    max_tokens: Option<u32>,
    /// From 0 to 2. Default: 0.7.
    temperature: Option<f64>,
    /// True: the answer is a stream of `data:` lines. Default: false.
    #[serde(default)]
    #[schema(value_type = bool)]
    stream: Option<bool>,
}

/// A message.
#[derive(Debug, Deserialize, ToSchema)]
struct MessageFields {
    /// The author.
    role: Author,
    /// The text.
    content: String,
}

#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Author {
    System,
    User,
    Assistant,
}

/// The answer of a model.
#[derive(Debug, Serialize, ToSchema)]
struct ChatCompletion {
    /// Identifies the model call in the usage of the organization.
    id: String,
    /// Always `chat.completion`.
    object: &'static str,
    /// The time of the call in Unix seconds.
    created: i64,
    /// The model that answered.
    model: String,
    /// One answer.
    choices: Vec<CompletionChoice>,
    /// The tokens of the call.
    usage: TokenUsage,
}

/// An answer.
#[derive(Debug, Serialize, ToSchema)]
struct CompletionChoice {
    /// Always 0.
    index: u32,
    /// The message of the model.
    message: AnswerMessage,
    /// `stop`, `length` or `content_filter`.
    finish_reason: &'static str,
}

/// A message of a model.
#[derive(Debug, Serialize, ToSchema)]
struct AnswerMessage {
    /// Always `assistant`.
    role: &'static str,
    /// The text.
    content: String,
}

/// The tokens of a call.
#[derive(Debug, Serialize, ToSchema)]
struct TokenUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    /// The charged credits.
    credits: u64,
}

impl From<Completion> for ChatCompletion {
    fn from(completion: Completion) -> Self {
        let (prompt_tokens, completion_tokens) = (completion.usage.input_tokens, completion.usage.output_tokens);
        let message = AnswerMessage { role: "assistant", content: completion.text };
        let finish_reason = match completion.finish {
            Some(FinishReason::Length) => "length",
            Some(FinishReason::ContentFilter) => "content_filter",
            Some(FinishReason::Stop | FinishReason::ToolCalls | FinishReason::MaxRounds) | None => "stop",
        };
        Self {
            id: completion.id,
            object: "chat.completion",
            created: completion.created_at.as_second(),
            model: completion.model,
            choices: vec![CompletionChoice { index: 0, message, finish_reason }],
            usage: TokenUsage {
                prompt_tokens,
                completion_tokens,
                total_tokens: prompt_tokens.saturating_add(completion_tokens),
                credits: completion.usage.credits,
            },
        }
    }
}

/// The response to a model call: an object, or a stream.
enum Completed {
    Whole(Json<ChatCompletion>),
    Stream(Body),
}

impl IntoResponse for Completed {
    fn into_response(self) -> Response {
        match self {
            Self::Whole(completion) => completion.into_response(),
            Self::Stream(body) => {
                let headers = [(CONTENT_TYPE, PLAIN), (CACHE_CONTROL, "no-cache"), UNBUFFERED];
                let mut response = (headers, body).into_response();
                response.extensions_mut().insert(StreamEnd(error_frame));
                response
            }
        }
    }
}

impl DocumentOutput for Completed {
    fn document(document: &mut Document) {
        let schema = document.reference::<ChatCompletion>();
        let content = json!({
            "application/json": { "schema": schema },
            "text/plain": { "schema": { "type": "string" } },
        });
        document.respond(200, "The completion, or a stream of `data:` lines.", content);
    }
}

async fn complete(client: Client, Json(fields): Json<CompletionFields>) -> Reply<Completed> {
    let model = fields.model.clone();
    let is_stream = fields.stream.unwrap_or_default();
    let refused = |failure: Failure| {
        let invalid = format!("Invalid model: {model}");
        let failure = failure.when(Reason::ModelNotAvailable, StatusCode::BAD_REQUEST, invalid);
        failure.when_model_failed("Error processing LLM request")
    };
    let request = request(fields);
    if is_stream {
        let events = client.run(StreamCompletion { request }).await.map_err(refused)?;
        let frames = frames(client.bounded(events)).map(Ok::<_, Infallible>);
        return Ok(Completed::Stream(Body::from_stream(frames)));
    }
    let completion = client.run(CreateCompletion { request }).await.map_err(refused)?;
    Ok(Completed::Whole(Json(completion.into())))
}

fn request(fields: CompletionFields) -> CompletionRequest {
    let message = |MessageFields { role, content }: MessageFields| {
        let role = match role {
            Author::System => CompletionRole::System,
            Author::User => CompletionRole::User,
            Author::Assistant => CompletionRole::Assistant,
        };
        CompletionMessage { role, text: content }
    };
    CompletionRequest {
        model: Some(fields.model),
        messages: fields.messages.into_iter().map(message).collect(),
        max_output_tokens: fields.max_tokens,
        temperature: Some(fields.temperature.unwrap_or(TEMPERATURE)),
    }
}

/// Returns the frames of a stream. The last one has `done`, or the error.
fn frames(events: impl Stream<Item = Result<CompletionEvent>> + Send) -> impl Stream<Item = Bytes> + Send {
    events.map(|event| match event {
        Ok(CompletionEvent::Text(text)) => frame(&json!({ "chunk": text, "done": false })),
        Ok(CompletionEvent::Done(_)) => frame(&json!({ "chunk": "", "done": true })),
        Err(error) => error_frame(&error),
    })
}

fn frame(content: &Value) -> Bytes {
    Bytes::from(format!("data: {content}\n\n"))
}

/// Returns the last frame of a stream that ends with an error.
fn error_frame(error: &Error) -> Bytes {
    let failure = Failure::from(error.clone()).when_model_failed("Error processing LLM request");
    frame(&json!({ "error": failure.message() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stream_ends_with_done_or_with_an_error() {
        let done = CompletionEvent::Done(Box::new(Completion {
            id: "c".to_owned(),
            model: "m".to_owned(),
            text: "a\nb".to_owned(),
            finish: None,
            usage: folio_types::message::Usage::default(),
            created_at: folio_types::Timestamp::UNIX_EPOCH,
        }));
        let text = || Ok(CompletionEvent::Text("a\nb".to_owned()));
        let written = async |events: Vec<Result<CompletionEvent>>| {
            let chunks: Vec<Bytes> = frames(futures::stream::iter(events)).collect().await;
            String::from_utf8(chunks.concat()).unwrap()
        };
        let expected = "data: {\"chunk\":\"a\\nb\",\"done\":false}\n\ndata: {\"chunk\":\"\",\"done\":true}\n\n";
        assert_eq!(written(vec![text(), Ok(done)]).await, expected);
        let error = Error::unavailable(Reason::ModelFailed, "no answer");
        let expected = "data: {\"chunk\":\"a\\nb\",\"done\":false}\n\n\
                        data: {\"error\":\"Error processing LLM request: No answer\"}\n\n";
        assert_eq!(written(vec![text(), Err(error)]).await, expected);
    }
}
