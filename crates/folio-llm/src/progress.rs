//! Progress of a model call, needed to settle a call that was stopped or failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Progress of a model call. Clones share the state. The client writes it; the caller reads it.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sent: AtomicBool,
    call_bytes: AtomicUsize,
}

impl Progress {
    /// Returns true if the provider may charge for the call: a request is in flight, or an attempt may have reached the
    /// provider and was not refused. False while the call waits for a permit or if every connection failed.
    pub fn is_sent(&self) -> bool {
        self.inner.sent.load(Ordering::Acquire)
    }

    pub fn set_sent(&self, sent: bool) {
        self.inner.sent.store(sent, Ordering::Release);
    }

    /// Returns the bytes of tool call arguments that the streams of all attempts delivered. Text and thinking are delivered as
    /// events.
    pub fn call_bytes(&self) -> usize {
        self.inner.call_bytes.load(Ordering::Acquire)
    }

    pub fn set_call_bytes(&self, bytes: usize) {
        self.inner.call_bytes.store(bytes, Ordering::Release);
    }
}
