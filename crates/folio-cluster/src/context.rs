//! What goes with a call from process to process beside the principal: how often it was forwarded, and its trace.
//!
//! It belongs to the task that answers the call, so that whoever forwards the call sends it on without being handed it.

use std::sync::Arc;

use http::HeaderMap;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";
/// Bytes of a trace state that are forwarded; a longer one is left out, as W3C Trace Context allows.
const TRACESTATE_BYTES: usize = 512;

tokio::task_local! {
    static CALL: CallContext;
}

/// What goes with a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallContext {
    /// How often the call was forwarded until it came here.
    pub hops: u8,
    /// The trace that it belongs to, if its caller has one.
    pub trace: Option<Trace>,
}

impl CallContext {
    /// That of the call which this task answers.
    pub fn current() -> Self {
        CALL.try_with(Clone::clone).unwrap_or_default()
    }

    /// Answers a call within its context.
    pub async fn within<T>(self, call: impl Future<Output = T>) -> T {
        CALL.scope(self, call).await
    }
}

/// A W3C trace context: sent on as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    parent: Arc<str>,
    state: Option<Arc<str>>,
}

impl Trace {
    /// The trace context of a request; none where there is none or it is malformed.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let parent = headers.get(TRACEPARENT)?.to_str().ok().filter(|text| is_traceparent(text))?;
        let state = headers.get(TRACESTATE).and_then(|text| text.to_str().ok());
        let state = state.filter(|text| !text.is_empty() && text.len() <= TRACESTATE_BYTES);
        Some(Self { parent: parent.into(), state: state.map(Into::into) })
    }

    /// The trace's id: 32 hexadecimal digits.
    pub fn id(&self) -> &str {
        self.parent.split('-').nth(1).unwrap_or_default()
    }

    pub(crate) fn write(&self, metadata: &mut MetadataMap) {
        for (name, value) in [(TRACEPARENT, Some(&self.parent)), (TRACESTATE, self.state.as_ref())] {
            if let Some(Ok(value)) = value.map(|value| AsciiMetadataValue::try_from(&**value)) {
                metadata.insert(name, value);
            }
        }
    }
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

    fn of(parent: &str, state: &str) -> Option<Trace> {
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, parent.parse().unwrap());
        headers.insert(TRACESTATE, state.parse().unwrap());
        Trace::of(&headers)
    }

    #[test]
    fn a_trace_goes_on_as_it_came() {
        let trace = of(PARENT, "vendor=1").unwrap();
        assert_eq!(trace.id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let mut metadata = MetadataMap::new();
        trace.write(&mut metadata);
        assert_eq!(Trace::of(metadata.as_ref()), Some(trace));
        assert_eq!(of(PARENT, &"x".repeat(513)).unwrap().state, None);
        assert!(of(&format!("01{}-more", &PARENT[2..]), "").is_some());
    }

    #[test]
    fn a_malformed_trace_is_left_out() {
        let zeros = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let upper = PARENT.to_uppercase();
        let more = format!("{PARENT}-01");
        let invalid = format!("ff{}", &PARENT[2..]);
        for bad in ["", "00", "00-1-2-3", zeros, upper.as_str(), more.as_str(), invalid.as_str()] {
            assert_eq!(of(bad, ""), None, "{bad}");
        }
        assert_eq!(Trace::of(&HeaderMap::new()), None);
    }

    #[tokio::test]
    async fn a_context_belongs_to_its_call() {
        let context = CallContext { hops: 1, trace: of(PARENT, "") };
        let seen = context.clone().within(async { CallContext::current() }).await;
        assert_eq!((seen, CallContext::current()), (context, CallContext::default()));
    }
}
