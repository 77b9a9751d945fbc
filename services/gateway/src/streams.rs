//! Limits of streams: first item, idle, lifetime, and the end of the drain.

use std::time::Duration;

use folio_proto::status;
use folio_types::{Code, Error, Reason, Result};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::layers::draining;

/// How long a stream may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// To its first item.
    pub(crate) first: Duration,
    /// Between items.
    pub(crate) idle: Duration,
    /// In all.
    pub(crate) lifetime: Duration,
}

/// What a service answers with.
pub(crate) type Answer<T> = BoxStream<'static, Result<T, Status>>;

/// The stream within its limits. It ends after its first error. Dropping it drops what it came from, nothing more.
pub(crate) fn limited<T: Send + 'static>(
    source: impl Stream<Item = Result<T>> + Send + 'static,
    limits: Limits,
    cut: CancellationToken,
) -> Answer<T> {
    let mut source = Box::pin(source);
    let stream = async_stream::stream! {
        let end = Instant::now() + limits.lifetime;
        let mut wait = limits.first;
        loop {
            let item = tokio::select! {
                item = source.next() => item,
                () = tokio::time::sleep(wait) => Some(Err(late("the stream was silent for too long"))),
                () = tokio::time::sleep_until(end) => Some(Err(late("the stream reached its lifetime"))),
                () = cut.cancelled() => Some(Err(draining())),
            };
            match item {
                Some(Ok(item)) => yield Ok(item),
                Some(Err(error)) => {
                    yield Err(status::from_error(error));
                    break;
                }
                None => break,
            }
            wait = limits.idle;
        }
    };
    stream.boxed()
}

fn late(message: &str) -> Error {
    Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, format!("{message}; what it is about goes on"))
        .retry_after(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(600);
    const LATE: Result<u32, tonic::Code> = Err(tonic::Code::DeadlineExceeded);

    async fn items(
        source: impl Stream<Item = Result<u32>> + Send + 'static,
        limits: Limits,
    ) -> Vec<Result<u32, tonic::Code>> {
        let limited = limited(source, limits, CancellationToken::new());
        limited.map(|item| item.map_err(|status| status.code())).collect().await
    }

    #[tokio::test]
    async fn a_silent_stream_ends() {
        let first = Limits { first: SHORT, idle: LONG, lifetime: LONG };
        assert_eq!(items(stream::pending(), first).await, [LATE]);
        let idle = Limits { first: LONG, idle: SHORT, lifetime: LONG };
        assert_eq!(items(stream::iter([Ok(1)]).chain(stream::pending()), idle).await, [Ok(1), LATE]);
        let patient = Limits { first: LONG, idle: LONG, lifetime: LONG };
        assert_eq!(items(stream::iter([Ok(1), Ok(2)]), patient).await, [Ok(1), Ok(2)]);
    }

    #[tokio::test]
    async fn a_stream_does_not_outlive_its_lifetime() {
        let limits = Limits { first: LONG, idle: LONG, lifetime: SHORT };
        assert_eq!(items(stream::iter([Ok(1)]).chain(stream::pending()), limits).await, [Ok(1), LATE]);
        let busy = stream::repeat_with(|| Ok(1)).then(|item| async {
            tokio::task::yield_now().await;
            item
        });
        assert_eq!(items(busy, limits).await.last(), Some(&LATE));
    }

    #[tokio::test]
    async fn a_stream_ends_after_its_first_error() {
        let limits = Limits { first: LONG, idle: LONG, lifetime: LONG };
        let source = stream::iter([Ok(1), Err(draining()), Ok(2)]);
        assert_eq!(items(source, limits).await, [Ok(1), Err(tonic::Code::Unavailable)]);
    }

    #[tokio::test]
    async fn the_end_of_the_drain_cuts_a_stream() {
        let cut = CancellationToken::new();
        let limits = Limits { first: LONG, idle: LONG, lifetime: LONG };
        let mut stream = limited(stream::iter([Ok(1)]).chain(stream::pending()), limits, cut.clone());
        assert!(stream.next().await.unwrap().is_ok());
        cut.cancel();
        assert_eq!(stream.next().await.unwrap().unwrap_err().code(), tonic::Code::Unavailable);
        assert!(stream.next().await.is_none());
    }
}
