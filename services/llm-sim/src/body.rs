//! The HTTP body of a streamed response: paced chunks with an optional fault.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::connection::Reset;
use crate::faults::Fault;
use crate::gates::Gates;
use crate::record::{Entry, Outcome};

pub(crate) struct Stream {
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) pause: Duration,
    /// A fault within the response, after this number of chunks.
    pub(crate) mid_stream: Option<(usize, Fault)>,
    pub(crate) entry: Entry,
    pub(crate) gates: Arc<Gates>,
    pub(crate) reset: Reset,
    pub(crate) stopping: CancellationToken,
}

/// Garbage on the wire: an event with invalid JSON and invalid UTF-8.
pub(crate) const GARBAGE: Bytes = Bytes::from_static(b"data: {\"choices\": [{\"delta\": \xff\xfe<html>\n\n");

impl Stream {
    /// Returns the body. Dropping it before its end records that the client disconnected.
    pub(crate) fn into_body(self) -> Body {
        if self.mid_stream.is_none() && self.pause.is_zero() {
            return self.at_once();
        }
        let stopping = self.stopping.clone();
        let stream = async_stream::stream! {
            let Self { chunks, pause, mut mid_stream, entry, gates, reset, .. } = self;
            let mut sent = 0;
            for chunk in chunks {
                if mid_stream.as_ref().is_some_and(|(after, _)| *after == sent) {
                    // Yielding once flushes the chunks before the fault.
                    tokio::task::yield_now().await;
                }
                match mid_stream.take_if(|(after, _)| *after == sent) {
                    Some((_, Fault::Hang { .. })) => {
                        entry.set_waiting(true);
                        std::future::pending::<()>().await;
                    }
                    Some((_, Fault::Cut { broken, .. })) => {
                        entry.close(Outcome::Failed("cut".to_owned()));
                        if broken {
                            yield Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
                        }
                        return;
                    }
                    Some((_, Fault::Reset { .. })) => {
                        entry.close(Outcome::Failed("reset".to_owned()));
                        reset.reset();
                        yield Ok(Bytes::from_static(b"\n"));
                        return;
                    }
                    Some((_, Fault::Garbage { .. })) => yield Ok(GARBAGE),
                    Some((_, Fault::Hold { gate, .. })) => {
                        entry.set_waiting(true);
                        gates.pass(&gate).await;
                        entry.set_waiting(false);
                    }
                    Some(_) | None => {}
                }
                if sent > 0 && !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                sent += 1;
                entry.sent(sent as u64);
                yield Ok(chunk);
            }
            entry.close(Outcome::Finished);
        };
        Body::from_stream(until(stream, stopping))
    }

    /// Sends all chunks without pauses. Benchmarks use this path.
    fn at_once(self) -> Body {
        let Self { chunks, entry, .. } = self;
        let count = chunks.len() as u64;
        let mut chunks = chunks.into_iter();
        let mut entry = Some(entry);
        Body::from_stream(futures::stream::poll_fn(move |_| {
            let next = chunks.next();
            if next.is_none()
                && let Some(entry) = entry.take()
            {
                entry.sent(count);
                entry.close(Outcome::Finished);
            }
            std::task::Poll::Ready(next.map(Ok::<_, std::io::Error>))
        }))
    }
}

/// Ends the stream with an error when the endpoint stops.
fn until<S>(stream: S, stopping: CancellationToken) -> impl futures::Stream<Item = Result<Bytes, std::io::Error>>
where
    S: futures::Stream<Item = Result<Bytes, std::io::Error>>,
{
    use futures::StreamExt as _;
    stream.take_until(stopping.cancelled_owned())
}
