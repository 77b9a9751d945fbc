//! Streams that are opened again after a lost connection.

use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt as _};
use tokio::time::Instant;
use tonic::{Response, Status, Streaming};

use crate::error::{Error, Result};
use crate::retry::{Rejoining, RetryPolicy};

/// A message of a stream, or the notice that its connection broke.
#[derive(Debug, Clone, PartialEq)]
pub enum Update<T> {
    Message(T),
    /// The connection broke; the stream is opened again. Sent once until the next new message.
    Reconnecting,
}

type Messages<T> = BoxStream<'static, Result<T, Status>>;
/// A stream that is being opened.
pub(crate) type Opening<T> = BoxFuture<'static, Result<Messages<T>, Status>>;

/// Opens a stream and maps its messages.
pub(crate) fn opening<M, T>(
    call: impl Future<Output = Result<Response<Streaming<M>>, Status>> + Send + 'static,
    map: fn(M) -> T,
) -> Opening<T>
where
    M: Send + 'static,
    T: Send + 'static,
{
    Box::pin(async move {
        let stream = call.await?.into_inner();
        Ok(stream.map(move |item| item.map(map)).boxed())
    })
}

/// The position in the attempts to read a stream.
pub(crate) struct Rejoined<T> {
    rejoining: Rejoining,
    stream: Option<Messages<T>>,
    /// True if the current stream sent new messages.
    has_progress: bool,
    /// The time of the next attempt.
    open_at: Option<Instant>,
}

impl<T> Rejoined<T> {
    pub(crate) fn new(policy: RetryPolicy) -> Self {
        Self { rejoining: Rejoining::new(policy), stream: None, has_progress: false, open_at: None }
    }

    /// Returns the next message, and opens the stream if necessary. Dropping the future loses no message.
    ///
    /// # Errors
    /// The error that ended the stream, if it is final or the attempts are exhausted.
    pub(crate) async fn next(&mut self, open: impl Fn() -> Opening<T>) -> Result<Update<T>> {
        loop {
            if let Some(at) = self.open_at {
                tokio::time::sleep_until(at).await;
                self.open_at = None;
            }
            let ended = match &mut self.stream {
                Some(stream) => match stream.next().await {
                    Some(Ok(message)) => return Ok(Update::Message(message)),
                    Some(Err(status)) => Some(status),
                    None => None,
                },
                None => match open().await {
                    Ok(stream) => {
                        self.stream = Some(stream);
                        continue;
                    }
                    Err(status) => Some(status),
                },
            };
            self.stream = None;
            let has_progress = std::mem::take(&mut self.has_progress);
            let delay = self.rejoining.delay(ended.map(Error::from), has_progress)?;
            self.open_at = Some(Instant::now() + delay);
            if self.rejoining.is_first() {
                return Ok(Update::Reconnecting);
            }
        }
    }

    /// Records that the last message was new.
    pub(crate) fn progressed(&mut self) {
        self.has_progress = true;
    }

    /// Closes the stream, so that the next message is that of a new one.
    pub(crate) fn restart(&mut self) {
        self.stream = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::stream;

    use super::*;

    type Script = Vec<Result<Vec<Result<u32, Status>>, Status>>;

    /// Reads the streams of a script, of which each number is new, until an error.
    async fn read(script: Script) -> (Vec<Update<u32>>, Error) {
        let script = Mutex::new(script.into_iter());
        let open = || -> Opening<u32> {
            let next = script.lock().unwrap().next().unwrap_or_else(|| Err(Status::not_found("the end")));
            Box::pin(std::future::ready(next.map(|items| stream::iter(items).boxed())))
        };
        let (mut rejoined, mut updates) = (Rejoined::new(RetryPolicy::default()), Vec::new());
        loop {
            match rejoined.next(open).await {
                Ok(update) => {
                    if matches!(update, Update::Message(_)) {
                        rejoined.progressed();
                    }
                    updates.push(update);
                }
                Err(error) => return (updates, error),
            }
        }
    }

    #[tokio::test]
    async fn a_stream_is_opened_again_and_the_loss_is_reported_once() {
        let broken = || Status::unavailable("connection reset");
        let script = vec![
            Ok(vec![Ok(1), Err(broken())]),
            Err(broken()),
            Ok(vec![Ok(2)]),
            Ok(vec![Ok(3), Err(Status::permission_denied("no"))]),
        ];
        let (updates, error) = read(script).await;
        let expected =
            [Update::Message(1), Update::Reconnecting, Update::Message(2), Update::Reconnecting, Update::Message(3)];
        assert_eq!(updates, expected);
        assert_eq!(error.code(), folio_types::Code::PermissionDenied);
    }
}
