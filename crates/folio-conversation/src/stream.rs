//! The events of a turn as a caller reads them.

use std::pin::Pin;
use std::task::{Context, Poll};

use folio_history::event::Event;
use folio_types::Result;
use futures::Stream;
use futures::stream::BoxStream;

/// The events of a turn, in order, up to one closing event. Dropping it never stops the turn.
///
/// An error as an item means that the stream is cut (the conversation was stopped): the turn is found again with
/// `get_turn` or `watch`. A reader that is slow gets neighbouring deltas as one, or a snapshot where it fell too far
/// behind.
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
