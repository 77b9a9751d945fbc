//! The spans of a call between processes, at both of its ends.

use folio_proto::status;
use tonic::{Code, Status};
use tracing::Span;
use tracing::field::Empty;

use crate::calls::Call;

/// A call whose answer is under way. Its span ends with this, and says how the call was answered.
pub(crate) struct Answering {
    span: Span,
    code: Code,
}

impl Answering {
    /// A call that this process makes.
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

    /// A call that this process answers.
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

    /// Until something else is said, nobody waits for it any more.
    fn new(span: Span) -> Self {
        Self { span, code: Code::Cancelled }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// It is answered, as far as is known now.
    pub(crate) fn answered(&mut self) {
        self.code = Code::Ok;
    }

    /// It is answered with this status.
    pub(crate) fn refused(&mut self, status: &Status) {
        self.code = status.code();
    }

    /// It took too long.
    pub(crate) fn late(&mut self) {
        self.code = Code::DeadlineExceeded;
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // The call's end is now, and not when its first answer came.
        self.span.in_scope(|| status::record(&self.span, self.code));
    }
}
