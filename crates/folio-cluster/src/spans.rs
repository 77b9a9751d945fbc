//! Spans of RPCs between processes, for client and server.

use folio_proto::status;
use tonic::{Code, Status};
use tracing::Span;
use tracing::field::Empty;

use crate::calls::Call;

/// An RPC whose answer is in progress. Dropping it ends its span with the status of the answer.
pub(crate) struct Answering {
    span: Span,
    code: Code,
}

impl Answering {
    /// Returns the span of an RPC that this process makes.
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

    /// Returns the span of an RPC that this process serves.
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

    /// Creates the guard. Until another status is set, the RPC counts as cancelled.
    fn new(span: Span) -> Self {
        Self { span, code: Code::Cancelled }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Records that the RPC was answered.
    pub(crate) fn answered(&mut self) {
        self.code = Code::Ok;
    }

    /// Records that the RPC was refused with this status.
    pub(crate) fn refused(&mut self, status: &Status) {
        self.code = status.code();
    }

    /// Records that the RPC exceeded its time limit.
    pub(crate) fn late(&mut self) {
        self.code = Code::DeadlineExceeded;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // Ends the span now, not at the first response message.
        self.span.in_scope(|| status::record(&self.span, self.code));
    }
}
