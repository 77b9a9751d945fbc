//! Limits of the streams of gateways and nodes: initial item, idle time, lifetime, and the end of the drain.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use folio_types::{Code, Error, Reason, Result};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::shutdown::draining;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamLimits {
    /// Bounds the time until the initial item of a stream is received.
    pub initial_item_timeout: Duration,
    /// Bounds the time between two items of a stream.
    pub idle_timeout: Duration,
    /// Bounds the total lifetime of a stream.
    pub max_lifetime: Duration,
}

/// Applies the limits to a stream. When `drain_ended` is cancelled, the stream fails with `DRAINING`. The stream ends
/// after its first error.
pub fn limited<T: Send + 'static>(
    source: impl Stream<Item = Result<T>> + Send + 'static,
    limits: StreamLimits,
    drain_ended: CancellationToken,
) -> LimitedStream<T> {
    let now = Instant::now();
    let end = now + limits.max_lifetime;
    let idle_deadline = now + limits.initial_item_timeout;
    LimitedStream {
        source: source.boxed(),
        idle_timeout: limits.idle_timeout,
        end,
        idle_deadline,
        item_received: false,
        timer: Box::pin(tokio::time::sleep_until(idle_deadline.min(end))),
        drain_ended: Box::pin(drain_ended.cancelled_owned()),
        ended: false,
    }
}

/// A stream with limits. An available item costs no timer operation: the timer is only reset when it fires.
pub struct LimitedStream<T> {
    source: BoxStream<'static, Result<T>>,
    idle_timeout: Duration,
    end: Instant,
    /// Time at which the stream exceeds its limit for the initial item or its idle limit.
    idle_deadline: Instant,
    /// True if an item was received since `idle_deadline` was set.
    item_received: bool,
    timer: Pin<Box<Sleep>>,
    drain_ended: Pin<Box<WaitForCancellationFutureOwned>>,
    ended: bool,
}

impl<T> std::fmt::Debug for LimitedStream<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LimitedStream").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl<T> LimitedStream<T> {
    /// Resolves to the error of an exceeded limit. Polled while no item is available.
    fn poll_limits(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        if std::mem::take(&mut self.item_received) {
            self.idle_deadline = Instant::now() + self.idle_timeout;
        }
        if self.drain_ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(draining());
        }
        let deadline = self.idle_deadline.min(self.end);
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
        loop {
            ready!(self.timer.as_mut().poll(context));
            if self.timer.deadline() < deadline {
                self.timer.as_mut().reset(deadline);
            } else if deadline == self.end {
                return Poll::Ready(lifetime_exceeded());
            } else {
                return Poll::Ready(limit_exceeded("the stream was silent for too long"));
            }
        }
    }
}

impl<T> Stream for LimitedStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        let item = match this.source.poll_next_unpin(context) {
            Poll::Ready(Some(Ok(_))) if Instant::now() >= this.end => Some(Err(lifetime_exceeded())),
            Poll::Ready(item) => item,
            Poll::Pending => Some(Err(ready!(this.poll_limits(context)))),
        };
        this.item_received = true;
        this.ended = !matches!(item, Some(Ok(_)));
        Poll::Ready(item)
    }
}

fn lifetime_exceeded() -> Error {
    limit_exceeded("the stream reached its maximum lifetime")
}

fn limit_exceeded(message: &str) -> Error {
    Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, format!("{message}; the turn continues"))
        .retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    const SHORT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(600);
    const LATE: Result<u32, Code> = Err(Code::DeadlineExceeded);

    async fn items(
        source: impl Stream<Item = Result<u32>> + Send + 'static,
        limits: StreamLimits,
    ) -> Vec<Result<u32, Code>> {
        let limited = limited(source, limits, CancellationToken::new());
        limited.map(|item| item.map_err(|error| error.code)).collect().await
    }

    #[tokio::test]
    async fn a_silent_stream_ends() {
        let first = StreamLimits { initial_item_timeout: SHORT, idle_timeout: LONG, max_lifetime: LONG };
        assert_eq!(items(stream::pending(), first).await, [LATE]);
        let idle = StreamLimits { initial_item_timeout: LONG, idle_timeout: SHORT, max_lifetime: LONG };
        assert_eq!(items(stream::iter([Ok(1)]).chain(stream::pending()), idle).await, [Ok(1), LATE]);
        let patient = StreamLimits { initial_item_timeout: LONG, idle_timeout: LONG, max_lifetime: LONG };
        assert_eq!(items(stream::iter([Ok(1), Ok(2)]), patient).await, [Ok(1), Ok(2)]);
    }

    #[tokio::test]
    async fn a_stream_does_not_outlive_its_lifetime() {
        let limits = StreamLimits { initial_item_timeout: LONG, idle_timeout: LONG, max_lifetime: SHORT };
        assert_eq!(items(stream::iter([Ok(1)]).chain(stream::pending()), limits).await, [Ok(1), LATE]);
        let busy = stream::repeat_with(|| Ok(1)).then(|item| async {
            tokio::task::yield_now().await;
            item
        });
        assert_eq!(items(busy, limits).await.last(), Some(&LATE));
    }

    #[tokio::test]
    async fn a_stream_ends_after_its_first_error() {
        let limits = StreamLimits { initial_item_timeout: LONG, idle_timeout: LONG, max_lifetime: LONG };
        let source = stream::iter([Ok(1), Err(draining()), Ok(2)]);
        assert_eq!(items(source, limits).await, [Ok(1), Err(Code::Unavailable)]);
    }

    #[tokio::test]
    async fn the_end_of_the_drain_ends_a_stream() {
        let drain_ended = CancellationToken::new();
        let limits = StreamLimits { initial_item_timeout: LONG, idle_timeout: LONG, max_lifetime: LONG };
        let mut stream = limited(stream::iter([Ok(1)]).chain(stream::pending()), limits, drain_ended.clone());
        assert!(stream.next().await.unwrap().is_ok());
        drain_ended.cancel();
        assert_eq!(stream.next().await.unwrap().unwrap_err().code, Code::Unavailable);
        assert!(stream.next().await.is_none());
    }
}
