//! Context of an RPC between processes in addition to its principal: the hop count and the trace.
//!
//! The context is local to the task that serves the RPC, so that a forwarded RPC carries it without an argument.

use folio_trace::{TRACEPARENT, TRACESTATE, TraceContext};
use http::HeaderMap;
use tokio::task::futures::TaskLocalFuture;
use tonic::metadata::{AsciiMetadataKey, MetadataMap};

tokio::task_local! {
    static CALL: CallContext;
}

/// The context of an RPC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallContext {
    /// Number of times the RPC was forwarded before it reached this process.
    pub hops: u8,
    /// Trace context in the caller's headers. It is forwarded unchanged if this process exports no traces.
    pub trace: Option<TraceContext>,
}

impl CallContext {
    /// Returns the context of the RPC that this task serves. Default: no hops, no trace.
    pub fn current() -> Self {
        CALL.try_with(Clone::clone).unwrap_or_default()
    }

    /// Runs an RPC with this context.
    pub fn scope<F: Future>(self, call: F) -> TaskLocalFuture<Self, F> {
        CALL.scope(self, call)
    }
}

/// Returns the trace context in request headers. None: it is missing or malformed.
pub fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let text = |name: &str| headers.get(name).and_then(|text| text.to_str().ok());
    TraceContext::parse(text(TRACEPARENT)?, text(TRACESTATE))
}

pub(crate) fn write_trace(trace: &TraceContext, metadata: &mut MetadataMap) {
    for (name, value) in trace.headers() {
        if let (Ok(name), Ok(value)) = (name.parse::<AsciiMetadataKey>(), value.parse()) {
            metadata.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_context_is_forwarded_unchanged() {
        let trace = TraceContext::parse(PARENT, Some("vendor=1")).unwrap();
        let mut metadata = MetadataMap::new();
        write_trace(&trace, &mut metadata);
        assert_eq!(trace_of(metadata.as_ref()), Some(trace));
        assert_eq!(trace_of(&HeaderMap::new()), None);
    }

    #[tokio::test]
    async fn a_context_belongs_to_its_call() {
        let context = CallContext { hops: 1, trace: TraceContext::parse(PARENT, None) };
        let seen = context.clone().scope(async { CallContext::current() }).await;
        assert_eq!((seen, CallContext::current()), (context, CallContext::default()));
    }
}
