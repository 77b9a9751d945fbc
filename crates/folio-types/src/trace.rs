//! Traces, as far as every crate knows of them: `tracing` spans within a process, W3C Trace Context between processes and
//! where a span outlives its caller.
//!
//! Who exports traces [`install`]s itself here; until then spans belong to no trace, and nothing costs anything.

use std::sync::{Arc, OnceLock};

use tracing::Span;

/// The target of what holds the words of people, documents and models: prompts, answers, arguments, results. It goes to
/// traces only where `telemetry.capture_content` says so, and never to logs: an event of this target is put together only
/// where somebody takes it.
pub const CONTENT: &str = "folio::content";

/// Bytes of a trace state that are kept; a longer one is left out, as W3C Trace Context allows.
const STATE_BYTES: usize = 512;

/// A place in a trace, as W3C Trace Context writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    parent: Arc<str>,
    state: Option<Arc<str>>,
}

impl Trace {
    /// From `traceparent` and `tracestate`; none where the first is malformed.
    pub fn parse(parent: &str, state: Option<&str>) -> Option<Self> {
        let state = state.filter(|text| !text.is_empty() && text.len() <= STATE_BYTES);
        is_traceparent(parent).then(|| Self { parent: parent.into(), state: state.map(Into::into) })
    }

    /// `traceparent`.
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// `tracestate`, where there is one.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The trace's id: 32 hexadecimal digits.
    pub fn id(&self) -> &str {
        self.parent.split('-').nth(1).unwrap_or_default()
    }

    /// Where the current span is; none outside of spans, and where nothing is installed.
    pub fn current() -> Option<Self> {
        Self::of(&Span::current())
    }

    /// Where a span is.
    pub fn of(span: &Span) -> Option<Self> {
        TRACES.get()?.of(span)
    }

    /// Makes a span that has just begun a child of this place. It keeps nothing of the span there alive.
    pub fn adopt(&self, span: &Span) {
        if let Some(traces) = TRACES.get() {
            traces.adopt(self, span);
        }
    }

    /// Says in a span that this place has to do with it.
    pub fn link(&self, span: &Span) {
        if let Some(traces) = TRACES.get() {
            traces.link(self, span);
        }
    }
}

/// Says that what a span stands for failed; `kind` is one of few words. The span has the fields for it.
pub fn failed(span: &Span, kind: &str) {
    span.record("error.type", kind).record("otel.status_code", "error");
}

/// Says in a span what is a list, which no field of a span can be.
pub fn list(span: &Span, name: &'static str, values: &[&'static str]) {
    if let Some(traces) = TRACES.get() {
        traces.list(span, name, values);
    }
}

/// What knows the traces of spans.
pub trait Traces: Send + Sync {
    /// Where a span is.
    fn of(&self, span: &Span) -> Option<Trace>;
    /// Makes a span a child of a place.
    fn adopt(&self, place: &Trace, span: &Span);
    /// Links a span with a place.
    fn link(&self, place: &Trace, span: &Span);
    /// Gives a span an attribute that is a list.
    fn list(&self, span: &Span, name: &'static str, values: &[&'static str]);
}

static TRACES: OnceLock<Box<dyn Traces>> = OnceLock::new();

/// From now on spans belong to traces. The first one stays.
pub fn install(traces: Box<dyn Traces>) {
    let _ = TRACES.set(traces);
}

/// Version 00 as it is specified; of a later one the part that will not change.
fn is_traceparent(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut next = |digits: usize| {
        let part = parts.next().filter(|part| part.len() == digits);
        part.filter(|part| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
    };
    let (version, trace, parent, flags) = (next(2), next(32), next(16), next(2));
    let zero = |part: &str| part.bytes().all(|byte| byte == b'0');
    match (version, trace, parent, flags) {
        (Some(version), Some(trace), Some(parent), Some(_)) => {
            version != "ff" && !zero(trace) && !zero(parent) && (version != "00" || parts.next().is_none())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_is_read_as_it_is_written() {
        let trace = Trace::parse(PARENT, Some("vendor=1")).unwrap();
        assert_eq!(trace.id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!((trace.parent(), trace.state()), (PARENT, Some("vendor=1")));
        assert_eq!(Trace::parse(PARENT, Some(&"x".repeat(513))).unwrap().state(), None);
        assert!(Trace::parse(&format!("01{}-more", &PARENT[2..]), None).is_some());
    }

    #[test]
    fn a_malformed_trace_is_left_out() {
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let upper = PARENT.to_uppercase();
        let more = format!("{PARENT}-01");
        let invalid = format!("ff{}", &PARENT[2..]);
        for bad in ["", "00", "00-1-2-3", zeros, upper.as_str(), more.as_str(), invalid.as_str()] {
            assert_eq!(Trace::parse(bad, None), None, "{bad}");
        }
    }

    #[test]
    fn where_nothing_is_installed_a_span_has_no_trace() {
        assert_eq!(Trace::current(), None);
    }
}
