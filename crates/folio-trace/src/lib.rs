//! Trace context: references to the spans of a distributed trace.
//!
//! Inside a process the crates use `tracing` spans. A [`TraceContext`] identifies a span where no `tracing` span can be
//! used: in the headers of an RPC (W3C Trace Context), in a queued job, and in an actor that outlives the request. The
//! crate `folio-process` samples and exports the spans. Until it installs its layers, spans belong to no trace and
//! every function of this crate does nothing.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry::{Array, Context, StringValue, Value};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Target of events that contain text of users, documents or models: prompts, answers, arguments, results. The log
/// never contains these events. Traces contain them only if `telemetry.capture_content` is true.
pub const CONTENT: &str = "folio::content";

/// Name of the header that contains the version, trace id, span id and flags.
pub const TRACEPARENT: &str = "traceparent";
/// Name of the header that contains vendor-specific state of the trace.
pub const TRACESTATE: &str = "tracestate";

/// Maximum length of a propagated `tracestate`. A longer value is dropped, which W3C Trace Context permits.
const TRACESTATE_MAX_BYTES: usize = 512;

/// Identity of a span in a distributed trace. A context does not keep the span open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext(SpanContext);

impl TraceContext {
    /// Parses the values of the headers `traceparent` and `tracestate`. Returns None if `traceparent` is malformed. A
    /// malformed or oversized `tracestate` is dropped.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut headers = HashMap::from([(TRACEPARENT.to_owned(), traceparent.to_owned())]);
        if let Some(state) = tracestate.filter(|state| state.len() <= TRACESTATE_MAX_BYTES) {
            headers.insert(TRACESTATE.to_owned(), state.to_owned());
        }
        Self::from_context(&TraceContextPropagator::new().extract_with_context(&Context::new(), &headers))
    }

    /// Returns the headers `traceparent` and, if it is not empty, `tracestate`.
    pub fn headers(&self) -> HashMap<String, String> {
        let mut headers = HashMap::new();
        let context = Context::new().with_remote_span_context(self.0.clone());
        TraceContextPropagator::new().inject_context(&context, &mut headers);
        headers.retain(|_, value| !value.is_empty());
        headers
    }

    pub fn traceparent(&self) -> String {
        self.headers().remove(TRACEPARENT).unwrap_or_default()
    }

    /// Returns the context of the current span. None outside of spans and before the layers are installed.
    pub fn current() -> Option<Self> {
        Self::of(&Span::current())
    }

    /// Returns the context of `span`. None before the layers are installed.
    pub fn of(span: &Span) -> Option<Self> {
        Self::from_context(&span.context())
    }

    /// `span` must not have been entered.
    pub fn set_parent_of(&self, span: &Span) {
        // Fails if the span was entered before or no layer is installed; then the span keeps its parent.
        let _ = span.set_parent(Context::new().with_remote_span_context(self.0.clone()));
    }

    /// Like [`TraceContext::set_parent_of`] for a parent outside of the cluster: its sampled flag does not decide whether
    /// the span and its descendants are exported ([`is_foreign`]).
    pub fn set_foreign_parent_of(&self, span: &Span) {
        let _ = span.set_parent(Context::new().with_remote_span_context(self.0.clone()).with_value(ForeignParent));
    }

    pub fn link_from(&self, span: &Span) {
        span.add_link(self.0.clone());
    }

    fn from_context(context: &Context) -> Option<Self> {
        let span = context.span().span_context().clone();
        span.is_valid().then_some(Self(span))
    }
}

/// Marks the context of a parent outside of the cluster.
struct ForeignParent;

/// Returns true if the parent of a new span is outside of the cluster. For samplers.
pub fn is_foreign(parent: &Context) -> bool {
    // The descendants of the span inherit the mark, but have a local parent.
    parent.get::<ForeignParent>().is_some() && parent.span().span_context().is_remote()
}

/// Records in `span` that its operation failed. `span` must have the fields `error.type` and `otel.status_code`. `kind`
/// must have low cardinality.
pub fn record_error(span: &Span, kind: &str) {
    span.record("error.type", kind).record("otel.status_code", "error");
}

/// Adds an attribute whose value is a list. A `tracing` field cannot be a list.
pub fn set_list(span: &Span, name: &'static str, values: &[&'static str]) {
    let values = values.iter().copied().map(StringValue::from).collect();
    span.set_attribute(name, Value::Array(Array::String(values)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_headers_of_a_parsed_context_equal_its_source() {
        let context = TraceContext::parse(PARENT, Some("vendor=1")).unwrap();
        let headers = [(TRACEPARENT, PARENT), (TRACESTATE, "vendor=1")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!((context.headers(), context.traceparent()), (HashMap::from(headers), PARENT.to_owned()));
        let without_state = TraceContext::parse(PARENT, None).unwrap();
        assert_eq!(TraceContext::parse(PARENT, Some(&format!("a={}", "x".repeat(511)))), Some(without_state.clone()));
        assert_eq!(TraceContext::parse(&format!("01{}-more", &PARENT[2..]), None), Some(without_state));
    }

    #[test]
    fn a_malformed_traceparent_is_rejected() {
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let upper = PARENT.to_uppercase();
        let more = format!("{PARENT}-01");
        let invalid = format!("ff{}", &PARENT[2..]);
        for bad in ["", "00", "00-x-2-3", zeros, upper.as_str(), more.as_str(), invalid.as_str()] {
            assert_eq!(TraceContext::parse(bad, None), None, "{bad}");
        }
    }

    #[test]
    fn without_layers_a_span_has_no_trace_context() {
        assert_eq!(TraceContext::current(), None);
    }

    #[test]
    fn a_child_span_has_the_trace_id_of_its_parent() {
        use opentelemetry::trace::TracerProvider as _;
        use tracing_subscriber::layer::SubscriberExt as _;
        let tracer = opentelemetry_sdk::trace::SdkTracerProvider::builder().build().tracer("test");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!("child");
            let parent = TraceContext::parse(PARENT, None).unwrap();
            parent.set_parent_of(&span);
            let child = TraceContext::of(&span).unwrap();
            assert_eq!(child.traceparent()[..36], PARENT[..36]);
            assert_ne!(child, parent);
        });
    }
}
