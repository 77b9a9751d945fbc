//! HTTP routes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, PoisonError};

use axum::extract::{DefaultBodyLimit, Path, State as Shared};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use super::{State, chat, retrieval};
use crate::control;
use crate::record::Entry;

/// Maximum size of a request, in bytes.
const BODY_BYTES: usize = 64 << 20;

pub(super) fn router(state: Arc<State>) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat::complete))
        .route("/v1/embeddings", post(retrieval::embed))
        .route("/v1/rerank", post(retrieval::rerank))
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .merge(control::router())
        .fallback(unknown)
        .layer(DefaultBodyLimit::max(BODY_BYTES))
        .with_state(state)
}

/// Returns an error in the form of OpenAI's endpoints.
pub(crate) fn error(status: StatusCode, kind: &str, message: &str) -> Response {
    let body = json!({"error": {"message": message, "type": kind, "param": null, "code": null}});
    (status, Json(body)).into_response()
}

async fn unknown(uri: Uri) -> Response {
    let path: String = uri.path().chars().take(100).collect();
    let message = format!("unknown path {path}: the base URL is http://HOST:PORT/v1");
    error(StatusCode::NOT_FOUND, "invalid_request_error", &message)
}

/// Adds a request to the record.
pub(super) fn record(state: &State, path: &str, body: Value, headers: &HeaderMap) -> Entry {
    let headers = if state.record.is_enabled() { recorded_headers(headers) } else { Vec::new() };
    let body = if state.hashes_bodies { hash(&body).into() } else { body };
    state.record.record(path, body, headers)
}

fn hash(body: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Returns the headers for the record, without the API key.
fn recorded_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let recorded = |name: &header::HeaderName, value: &header::HeaderValue| {
        let value = if *name == header::AUTHORIZATION { "present" } else { value.to_str().unwrap_or("(not text)") };
        (name.as_str().to_owned(), value.to_owned())
    };
    headers.iter().map(|(name, value)| recorded(name, value)).collect()
}

/// Returns the refusal of a request without the required API key. None: the request is permitted.
pub(super) fn unauthorized(state: &State, headers: &HeaderMap) -> Option<Response> {
    let expected = state.api_key.as_deref()?;
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let is_refused = value.and_then(|value| value.strip_prefix("Bearer ")) != Some(expected);
    is_refused.then(|| error(StatusCode::UNAUTHORIZED, "authentication_error", "Incorrect API key provided."))
}

fn names(state: &State) -> Vec<String> {
    state.models.read().unwrap_or_else(PoisonError::into_inner).clone()
}

fn model_object(state: &State, name: &str) -> Value {
    let mut model = json!({"id": name, "object": "model", "created": 1_790_000_000, "owned_by": "llm-sim"});
    if let (Some(tokens), Value::Object(members)) = (state.context_tokens, &mut model) {
        members.insert("max_model_len".to_owned(), tokens.into());
    }
    model
}

async fn models(Shared(state): Shared<Arc<State>>, headers: HeaderMap) -> Response {
    if let Some(refused) = unauthorized(&state, &headers) {
        return refused;
    }
    let data: Vec<_> = names(&state).iter().map(|name| model_object(&state, name)).collect();
    Json(json!({"object": "list", "data": data})).into_response()
}

async fn model(Shared(state): Shared<Arc<State>>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    if let Some(refused) = unauthorized(&state, &headers) {
        return refused;
    }
    if names(&state).contains(&name) {
        return Json(model_object(&state, &name)).into_response();
    }
    error(StatusCode::NOT_FOUND, "invalid_request_error", "The model does not exist.")
}
