//! The port for purchases: HTTP/1.1 from a payment system, separate from the public API.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode, header::RETRY_AFTER};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use folio_cluster::trace_of;
use folio_gateway::purchases::{MESSAGE_BYTES_MAX, PurchaseOutcome, Purchases};
use folio_types::{Code, Error};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::http_port::HttpPort;

/// Maximum number of concurrent messages. Further messages are refused and must be resent.
const CONCURRENT_MESSAGES: usize = 32;
/// Timeout of a message, including its body.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(15);
/// Seconds after which a refused message should be resent.
const RETRY_AFTER_SECONDS: &str = "5";

struct PurchaseState {
    purchases: Purchases,
    permits: Semaphore,
}

pub(crate) fn start_port(listener: TcpListener, purchases: Purchases) -> Result<HttpPort> {
    let state = Arc::new(PurchaseState { purchases, permits: Semaphore::new(CONCURRENT_MESSAGES) });
    let pages = Router::new().route("/webhooks/purchases", post(traced)).with_state(state);
    HttpPort::start("purchases", listener, MESSAGE_TIMEOUT, |listener, end| {
        axum::serve(listener, pages).with_graceful_shutdown(end.cancelled_owned()).into_future()
    })
}

/// Processes a message within a span, which links to the trace of the sender if the headers have one.
async fn traced(State(state): State<Arc<PurchaseState>>, request: Request<Body>) -> Response {
    let span = tracing::info_span!(
        "purchase",
        otel.name = "POST /webhooks/purchases",
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = "POST",
        http.route = "/webhooks/purchases",
        http.response.status_code = Empty,
        "error.type" = Empty,
    );
    if let Some(trace) = trace_of(request.headers()) {
        trace.link_from(&span);
    }
    let response = process(&state, request).instrument(span.clone()).await;
    record_status(&span, response.status());
    response
}

fn record_status(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        folio_trace::record_error(span, status.as_str());
    }
}

async fn process(state: &PurchaseState, request: Request<Body>) -> Response {
    let Ok(_permit) = state.permits.try_acquire() else {
        return later(StatusCode::SERVICE_UNAVAILABLE);
    };
    let (head, body) = request.into_parts();
    let processing = async {
        match axum::body::to_bytes(body, MESSAGE_BYTES_MAX).await {
            Ok(body) => answer(state.purchases.receive(&head.headers, &body).await),
            Err(_) => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        }
    };
    tokio::time::timeout(MESSAGE_TIMEOUT, processing).await.unwrap_or_else(|_| later(StatusCode::GATEWAY_TIMEOUT))
}

fn answer(outcome: folio_types::Result<PurchaseOutcome>) -> Response {
    match outcome {
        Ok(PurchaseOutcome::Granted) => StatusCode::NO_CONTENT.into_response(),
        Ok(PurchaseOutcome::Ignored) => StatusCode::ACCEPTED.into_response(),
        Err(error) => refused(&error),
    }
}

fn refused(error: &Error) -> Response {
    let status = match error.code {
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::FailedPrecondition => StatusCode::CONFLICT,
        _ => {
            tracing::warn!(%error, "a purchase failed");
            return later(StatusCode::SERVICE_UNAVAILABLE);
        }
    };
    tracing::warn!(%error, "refused a purchase message");
    (status, error.message.clone()).into_response()
}

fn later(status: StatusCode) -> Response {
    (status, [(RETRY_AFTER, RETRY_AFTER_SECONDS)]).into_response()
}
