//! Spans of RPCs between processes, for client and server.

use folio_proto::status;
use tonic::{Code, Status};
use tracing::Span;
use tracing::field::Empty;

use crate::calls::Call;

/// The span of an RPC. Dropping it ends the span with the recorded status.
pub(crate) struct RpcSpan {
    span: Span,
    code: Code,
}

impl RpcSpan {
    /// Starts the span of an RPC that this process makes.
    pub(crate) fn client<Q: Call>(address: &str) -> Self {
        Self::new(tracing::info_span!(
            "peer_call",
            otel.name = Q::METHOD,
            otel.kind = "client",
            otel.status_code = Empty,
            rpc.system.name = "grpc",
            rpc.method = Q::METHOD,
            rpc.response.status_code = Empty,
            server.address = address,
            "error.type" = Empty,
        ))
    }

    /// Starts the span of an RPC that this process serves.
    pub(crate) fn server<Q: Call>() -> Self {
        Self::new(tracing::info_span!(
            "peer",
            otel.name = Q::METHOD,
            otel.kind = "server",
            otel.status_code = Empty,
            rpc.system.name = "grpc",
            rpc.method = Q::METHOD,
            rpc.response.status_code = Empty,
            "error.type" = Empty,
        ))
    }

    /// Until another status is recorded, the RPC counts as cancelled.
    fn new(span: Span) -> Self {
        Self { span, code: Code::Cancelled }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    pub(crate) fn record_success(&mut self) {
        self.code = Code::Ok;
    }

    pub(crate) fn record_status(&mut self, status: &Status) {
        self.code = status.code();
    }

    pub(crate) fn timed_out(&mut self) {
        self.code = Code::DeadlineExceeded;
    }
}

impl Drop for RpcSpan {
    fn drop(&mut self) {
        // Enters the span again, so that it ends now and not when the response started.
        self.span.in_scope(|| status::record(&self.span, self.code));
    }
}
