//! Control routes below `/sim/`, for an endpoint that runs as its own process:
//!
//! - `GET /sim/requests`: the recorded requests (`?from=N`: without those before number N)
//! - `PUT /sim/script` (YAML or JSON), `PUT /sim/faults` (a JSON list of fault rules)
//! - `POST /sim/gates/{gate}`: opens a gate · `POST /sim/reset`
//! - `GET /sim/health`

use std::sync::Arc;

use axum::extract::{Path, Query, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;

use crate::faults::FaultPlan;
use crate::script::Script;
use crate::server::{State, error};

pub(crate) fn router() -> Router<Arc<State>> {
    Router::new()
        .route("/sim/health", get(|| async { Json(json!({"status": "ok"})) }))
        .route("/sim/requests", get(requests))
        .route("/sim/script", put(script))
        .route("/sim/faults", put(faults))
        .route("/sim/gates/{gate}", post(gate))
        .route("/sim/reset", post(reset))
}

#[derive(Deserialize)]
struct From {
    #[serde(default)]
    from: u64,
}

async fn requests(Shared(state): Shared<Arc<State>>, Query(From { from }): Query<From>) -> Response {
    let requests: Vec<_> = state.record.all().into_iter().filter(|entry| entry.number >= from).collect();
    Json(requests).into_response()
}

async fn script(Shared(state): Shared<Arc<State>>, body: String) -> Response {
    match Script::parse(&body) {
        Ok(script) => {
            state.set_script(script);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(problem) => error(StatusCode::BAD_REQUEST, "invalid_script", &problem.to_string()),
    }
}

async fn faults(Shared(state): Shared<Arc<State>>, body: String) -> Response {
    let plan = serde_json::from_str::<FaultPlan>(&body).map_err(|error| error.to_string());
    match plan.and_then(|plan| plan.check().map(|()| plan)) {
        Ok(plan) => {
            state.set_faults(plan);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(problem) => error(StatusCode::BAD_REQUEST, "invalid_faults", &problem),
    }
}

async fn gate(Shared(state): Shared<Arc<State>>, Path(gate): Path<String>) -> Response {
    state.gates.open(&gate);
    StatusCode::NO_CONTENT.into_response()
}

async fn reset(Shared(state): Shared<Arc<State>>) -> Response {
    state.reset();
    StatusCode::NO_CONTENT.into_response()
}
