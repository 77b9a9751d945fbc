//! Delivery of a response, which a fault may delay, replace or break.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

use super::State;
use super::routes::error;
use crate::body::{GARBAGE, Stream};
use crate::connection::Reset;
use crate::faults::Fault;
use crate::record::{Entry, Outcome};

/// A recorded request without its response.
pub(super) struct Delivery {
    pub(super) state: Arc<State>,
    pub(super) reset: Reset,
    pub(super) entry: Entry,
    /// True if the response is an event stream.
    pub(super) stream: bool,
}

/// A fault within the response.
#[derive(Default)]
pub(super) struct BrokenPart {
    /// The fault, and the number of chunks before it.
    pub(super) mid_stream: Option<(usize, Fault)>,
    /// True: the response has no finish reason.
    pub(super) has_no_finish: bool,
    /// Bytes of text that replace the response.
    pub(super) flood: Option<usize>,
}

impl Delivery {
    /// Waits as long as the latency and the fault require. The error is the response of the fault.
    pub(super) async fn begin(self, fault: Option<Fault>) -> Result<(Self, BrokenPart), Box<Response>> {
        let mut wait = {
            let mut rng = self.state.rng.lock().unwrap_or_else(PoisonError::into_inner);
            self.state.latency.sample(&mut *rng)
        };
        let mut broken = BrokenPart::default();
        match fault {
            Some(Fault::Status { code, retry_after, body }) => {
                return Err(Box::new(self.status(code, retry_after, body)));
            }
            Some(Fault::Reset { after_chunks: 0 }) => return Err(Box::new(self.reset_now())),
            Some(Fault::Garbage { after_chunks: 0 }) => return Err(Box::new(self.garbage())),
            Some(Fault::Hang { after_chunks: 0 }) => {
                self.entry.set_waiting(true);
                self.state.stopping.cancelled().await;
                let response = error(StatusCode::SERVICE_UNAVAILABLE, "server_error", "stopping");
                return Err(Box::new(response));
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
            Some(Fault::NoFinish) => broken.has_no_finish = true,
            Some(Fault::Flood { bytes }) => broken.flood = Some(bytes),
            Some(fault) => broken.mid_stream = fault.after_chunks().map(|after| (after, fault)),
            None => {}
        }
        if !wait.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.state.stopping.cancelled() => {}
            }
        }
        Ok((self, broken))
    }

    /// Sends a response as chunks of an event stream, with a pause between them.
    pub(super) fn events(self, chunks: Vec<Bytes>, pause: Duration, mid_stream: Option<(usize, Fault)>) -> Response {
        let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
        (headers, self.into_stream(chunks, pause, mid_stream).into_body()).into_response()
    }

    /// Sends a response as one body. A fault within the response occurs at half of the body.
    pub(super) fn json(self, body: String, mid_stream: Option<(usize, Fault)>) -> Response {
        let headers = [(header::CONTENT_TYPE, "application/json")];
        let Some((_, fault)) = mid_stream else {
            self.entry.close(Outcome::Finished);
            return (headers, body).into_response();
        };
        let (first, second) = body.split_at(body.floor_char_boundary(body.len() / 2));
        let chunks = vec![Bytes::from(first.to_owned()), Bytes::from(second.to_owned())];
        (headers, self.into_stream(chunks, Duration::ZERO, Some((1, fault))).into_body()).into_response()
    }

    fn into_stream(self, chunks: Vec<Bytes>, pause: Duration, mid_stream: Option<(usize, Fault)>) -> Stream {
        Stream {
            chunks,
            pause,
            mid_stream,
            entry: self.entry,
            gates: Arc::clone(&self.state.gates),
            reset: self.reset,
            stopping: self.state.stopping.clone(),
        }
    }

    /// Refuses an invalid request.
    pub(super) fn refuse(self, problem: &str) -> Response {
        self.entry.close(Outcome::Failed(problem.to_owned()));
        error(StatusCode::BAD_REQUEST, "invalid_request_error", problem)
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
