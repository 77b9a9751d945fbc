//! Embeddings and reranking.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, State as Shared};
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json};

use super::State;
use super::delivery::Delivery;
use super::routes::{record, unauthorized};
use crate::connection::Reset;
use crate::faults::FaultTarget;
use crate::record::Outcome;
use crate::{embeddings, rerank};

/// `POST /v1/embeddings`.
pub(super) async fn embed(
    Shared(state): Shared<Arc<State>>,
    ConnectInfo(reset): ConnectInfo<Reset>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let dimensions = state.dimensions;
    let answer = |body: &Value| embeddings::answer(body, dimensions);
    respond((state, reset), ("/v1/embeddings", FaultTarget::Embeddings), (&headers, &body), answer).await
}

/// `POST /v1/rerank`.
pub(super) async fn rerank(
    Shared(state): Shared<Arc<State>>,
    ConnectInfo(reset): ConnectInfo<Reset>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    respond((state, reset), ("/v1/rerank", FaultTarget::Rerank), (&headers, &body), rerank::answer).await
}

async fn respond(
    (state, reset): (Arc<State>, Reset),
    (path, target): (&str, FaultTarget),
    (headers, body): (&HeaderMap, &Bytes),
    answer: impl FnOnce(&Value) -> Result<Value, String>,
) -> Response {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let entry = record(&state, path, value.clone(), headers);
    if let Some(refused) = unauthorized(&state, headers) {
        entry.close(Outcome::Failed("401".to_owned()));
        return refused;
    }
    let fault = state.next_fault(target);
    let delivery = Delivery { state, reset, entry, stream: false };
    let answer = match answer(&value) {
        Ok(answer) => answer,
        Err(problem) => return delivery.refuse(&problem),
    };
    match delivery.begin(fault).await {
        Ok((delivery, broken)) => {
            let flood = broken.flood.map(|bytes| json!({ "flood": "x".repeat(bytes) }));
            delivery.json(flood.unwrap_or(answer).to_string(), broken.mid_stream)
        }
        Err(response) => *response,
    }
}
