//! How far a call came: what who settles it has to know where it was stopped or failed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How far a call came. Cheap to clone: all clones are one. Who makes the call writes it, who asked for it reads it.
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
    /// Whether the provider may ask for money: the request is on its way, or an attempt may have reached the provider and was not
    /// turned away. Not so of a call that waits for a place, or whose connections were refused.
    pub fn is_sent(&self) -> bool {
        self.inner.sent.load(Ordering::Acquire)
    }

    /// Says so.
    pub fn set_sent(&self, sent: bool) {
        self.inner.sent.store(sent, Ordering::Release);
    }

    /// Bytes of arguments of tool calls that a stream brought; text and thinking are its events.
    pub fn call_bytes(&self) -> usize {
        self.inner.call_bytes.load(Ordering::Acquire)
    }

    /// Says so.
    pub fn set_call_bytes(&self, bytes: usize) {
        self.inner.call_bytes.store(bytes, Ordering::Release);
    }
}
