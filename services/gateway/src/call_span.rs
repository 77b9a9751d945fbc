//! The trace span of an API call, from the first byte of the request to the last byte of the response, with the outcome.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use folio_proto::status;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use http_body::{Body as _, Frame, SizeHint};
use tonic::body::Body;
use tonic::{Code, Status};
use tracing::Span;
use tracing::field::Empty;

use crate::access::{Route, rpc_path};
use crate::faces::Target;
use crate::http_status::grpc_code;

/// Returns the span of an API call. Calls of the services for health and reflection have a disabled span.
pub(crate) fn span(target: &Target) -> Span {
    let Route::Api(operation) = target.route else { return Span::none() };
    let path = rpc_path(operation);
    let method = path.trim_start_matches('/');
    tracing::info_span!(
        "rpc",
        otel.name = method,
        otel.kind = "server",
        otel.status_code = Empty,
        rpc.system.name = target.face.name(),
        rpc.method = method,
        rpc.response.status_code = Empty,
        "error.type" = Empty,
        call_id = Empty,
        org = Empty,
        user = Empty
    )
}

/// Returns the response with a body that ends the span of the call after the last byte.
pub(crate) fn with_span(response: Response<Body>, span: Span) -> Response<Body> {
    if span.is_disabled() {
        return response;
    }
    let (head, body) = response.into_parts();
    // A response of gRPC ends with its status.
    let is_grpc = head.headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    let code = if is_grpc { None } else { Some(grpc_code(head.status)) };
    let mut traced = TracedBody { body, span, code, is_recorded: false };
    traced.record_status(&head.headers);
    Response::from_parts(head, Body::new(traced))
}

struct TracedBody {
    body: Body,
    span: Span,
    /// The outcome if the response is read completely. None: the headers or trailers of gRPC contain the outcome.
    code: Option<Code>,
    is_recorded: bool,
}

impl TracedBody {
    /// Records the outcome if these headers or trailers contain the status.
    fn record_status(&mut self, headers: &HeaderMap) {
        if let Some(code) = headers.get("grpc-status").filter(|_| !self.is_recorded) {
            self.is_recorded = true;
            status::record(&self.span, Code::from_bytes(code.as_bytes()));
        }
    }
}

impl Drop for TracedBody {
    fn drop(&mut self) {
        if !self.is_recorded {
            let code = self.code.filter(|_| self.body.is_end_stream()).unwrap_or(Code::Cancelled);
            status::record(&self.span, code);
        }
        // Ends the span at the end of the body, not at the start of the response.
        self.span.in_scope(|| ());
    }
}

impl http_body::Body for TracedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let (None, Some(code), false) = (&frame, self.code, self.is_recorded) {
            self.is_recorded = true;
            status::record(&self.span, code);
        }
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
        {
            self.record_status(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
