//! A stream of a turn's events that tolerates slow readers: after a gap, it continues with a snapshot.

use std::sync::Arc;

use folio_history::event::Event;
use folio_types::{Error, Reason, Result};
use futures::Stream;
use futures::future::BoxFuture;

use super::buffer::{PullResult, TurnBuffer};

/// Maximum number of events per pull.
const BATCH: usize = 64;

/// Start of an event stream: the events to send first, and the buffer position that follows.
#[derive(Debug)]
pub(crate) struct StreamStart {
    pub(crate) turn: u32,
    /// Events to send first.
    pub(crate) initial_events: Vec<Event>,
    /// Buffer and number of the next event. None: the stream ends after `initial_events`.
    pub(crate) continuation: Option<(Arc<TurnBuffer>, u64)>,
}

/// Reopens a stream at an event number that the buffer does not contain.
pub(crate) type Rejoin = Box<dyn Fn(u64) -> BoxFuture<'static, Result<StreamStart>> + Send + Sync>;

/// Streams the events of a turn up to its closing event.
pub(crate) fn follow(start: StreamStart, rejoin: Rejoin) -> impl Stream<Item = Result<Event>> + Send + 'static {
    async_stream::stream! {
        let mut step = start;
        loop {
            for event in step.initial_events {
                let closing = event.kind.is_closing();
                yield Ok(event);
                if closing {
                    return;
                }
            }
            let Some((buffer, mut from)) = step.continuation else { return };
            let mut changed = buffer.subscribe();
            loop {
                changed.mark_unchanged();
                match buffer.pull(from, BATCH) {
                    PullResult::Events(events) => {
                        for event in events {
                            from = event.number.saturating_add(1);
                            let closing = event.kind.is_closing();
                            yield Ok(event);
                            if closing {
                                return;
                            }
                        }
                    }
                    PullResult::Empty => {
                        if changed.changed().await.is_err() {
                            yield Err(stopped());
                            return;
                        }
                    }
                    PullResult::Evicted => break,
                    PullResult::Stopped(error) => {
                        yield Err(error);
                        return;
                    }
                }
            }
            drop(changed);
            match rejoin(from).await {
                Ok(next) => step = next,
                Err(error) => {
                    yield Err(error);
                    return;
                }
            }
        }
    }
}

/// Returns the error that ends the streams of a conversation that stops.
pub(crate) fn stopped() -> Error {
    Error::unavailable(Reason::NodeLost, "the conversation was stopped; watch the turn again")
        .retry_after(std::time::Duration::from_secs(1))
}
