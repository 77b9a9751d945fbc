//! The stream of a turn's events for a caller.

use std::pin::Pin;
use std::task::{Context, Poll};

use folio_history::event::Event;
use folio_types::Result;
use futures::Stream;
use futures::stream::BoxStream;

/// The events of a turn in order, up to one closing event. Dropping the stream does not stop the turn.
///
/// An error item means that the conversation stopped; `get_turn` and `watch` continue from there. A slow reader
/// receives adjacent deltas merged into one, or a snapshot if it is too slow.
pub struct EventStream {
    inner: BoxStream<'static, Result<Event>>,
}

impl EventStream {
    pub(crate) fn new(stream: impl Stream<Item = Result<Event>> + Send + 'static) -> Self {
        Self { inner: Box::pin(stream) }
    }
}

impl Stream for EventStream {
    type Item = Result<Event>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.inner.as_mut().poll_next(context)
    }
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventStream")
    }
}
