//! The HTTP body of a streamed answer: chunks at their pace, with the fault that strikes on the way.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::connection::Reset;
use crate::gates::Gates;
use crate::record::{Entry, Outcome};

/// How a stream ends, or what happens on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Midway {
    /// Hangs until the client leaves.
    Hang,
    /// Ends, or breaks off.
    Cut { broken: bool },
    /// Sends what is no JSON, then goes on.
    Garbage,
    /// Resets the connection.
    Reset,
    /// Waits at a gate, then goes on.
    Hold(String),
}

/// A stream to send.
pub(crate) struct Stream {
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) pause: Duration,
    /// What happens after so many chunks.
    pub(crate) midway: Option<(usize, Midway)>,
    pub(crate) entry: Entry,
    pub(crate) gates: Arc<Gates>,
    pub(crate) reset: Reset,
    pub(crate) stopping: CancellationToken,
}

/// What goes over the wire as garbage: an event whose data is no JSON, with bytes that are no UTF-8.
pub(crate) const GARBAGE: Bytes = Bytes::from_static(b"data: {\"choices\": [{\"delta\": \xff\xfe<html>\n\n");

impl Stream {
    /// The body that sends it. Dropping the body (the client left) is noted in the record.
    pub(crate) fn into_body(self) -> Body {
        if self.midway.is_none() && self.pause.is_zero() {
            return self.at_once();
        }
        let stopping = self.stopping.clone();
        let stream = async_stream::stream! {
            let Self { chunks, pause, mut midway, entry, gates, reset, .. } = self;
            let mut sent = 0;
            for chunk in chunks {
                if midway.as_ref().is_some_and(|(after, _)| *after == sent) {
                    // Not ready for once: what was sent so far goes out before the fault.
                    tokio::task::yield_now().await;
                }
                match midway.take_if(|(after, _)| *after == sent) {
                    Some((_, Midway::Hang)) => {
                        entry.held(true);
                        std::future::pending::<()>().await;
                    }
                    Some((_, Midway::Cut { broken })) => {
                        entry.close(Outcome::Failed("cut".to_owned()));
                        if broken {
                            yield Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
                        }
                        return;
                    }
                    Some((_, Midway::Reset)) => {
                        entry.close(Outcome::Failed("reset".to_owned()));
                        reset.reset();
                        yield Ok(Bytes::from_static(b"\n"));
                        return;
                    }
                    Some((_, Midway::Garbage)) => yield Ok(GARBAGE),
                    Some((_, Midway::Hold(gate))) => {
                        entry.held(true);
                        gates.pass(&gate).await;
                        entry.held(false);
                    }
                    None => {}
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

    /// All chunks as fast as they are taken: the path of benchmarks.
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

/// The stream, broken off when the endpoint stops.
fn until<S>(stream: S, stopping: CancellationToken) -> impl futures::Stream<Item = Result<Bytes, std::io::Error>>
where
    S: futures::Stream<Item = Result<Bytes, std::io::Error>>,
{
    use futures::StreamExt as _;
    stream.take_until(stopping.cancelled_owned())
}
