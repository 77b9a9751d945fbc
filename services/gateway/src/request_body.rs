//! The body of a request. It bounds the time and the memory of a message that is not complete.
//!
//! A decoder reserves the memory of a message when it has read the length. Therefore the length is reserved here before
//! the decoder receives it, and returned when the message is complete. The body of a request with JSON is one message
//! without a length prefix: its memory is reserved when the length is known, or as it grows.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use folio_proto::status;
use folio_types::{Code, Error, Reason};
use http_body::{Body as _, Frame, SizeHint};
use tokio::time::Sleep;
use tonic::Status;
use tonic::body::Body;

use crate::call_shares::{CallShare, CallShares, Owner};
use crate::counters::Counters;

/// Length of the prefix of a gRPC message: a flag and the length of the message.
const PREFIX: usize = 5;
/// Flag of a compressed message. That of another message is zero.
const COMPRESSED: u8 = 1;

/// The position in a sequence of gRPC messages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MessageReader {
    /// Received bytes of the prefix. Complete: the message is in progress.
    prefix: [u8; PREFIX],
    prefix_length: usize,
    /// Missing bytes of the message.
    missing: u64,
}

impl MessageReader {
    /// Reads bytes. Returns true if a message became complete.
    fn read(&mut self, mut bytes: &[u8]) -> bool {
        let mut is_complete = false;
        while !bytes.is_empty() {
            if self.prefix_length < PREFIX {
                for slot in self.prefix.iter_mut().skip(self.prefix_length) {
                    if bytes.is_empty() {
                        return is_complete;
                    }
                    *slot = bytes.get_u8();
                    self.prefix_length += 1;
                }
                self.missing = self.length();
            }
            let present = usize::try_from(self.missing).unwrap_or(usize::MAX).min(bytes.len());
            bytes.advance(present);
            self.missing -= present as u64;
            if self.missing == 0 {
                (self.prefix_length, is_complete) = (0, true);
            }
        }
        is_complete
    }

    fn length(&self) -> u64 {
        let [_, length @ ..] = self.prefix;
        u32::from_be_bytes(length).into()
    }

    /// Returns the length of the message in progress. None: no message is in progress, its length is not complete, or its prefix has
    /// an unknown flag, so that the decoder refuses it.
    fn in_progress(&self) -> Option<u64> {
        let [flag, ..] = self.prefix;
        (self.prefix_length == PREFIX && flag <= COMPRESSED).then(|| self.length())
    }
}

/// The form of the messages in a body.
#[derive(Debug)]
pub(crate) enum Framing {
    /// Messages of gRPC, each with its length. `is_client_stream`: the body may have any number of messages, otherwise it ends after
    /// the first one.
    Messages { reader: MessageReader, is_client_stream: bool },
    /// The whole body is one message, of which this number of bytes is received.
    Whole(u64),
    /// The body is not a message: its reader bounds it.
    Stream,
}

impl Framing {
    pub(crate) fn messages(is_client_stream: bool) -> Self {
        Self::Messages { reader: MessageReader::default(), is_client_stream }
    }

    pub(crate) fn whole() -> Self {
        Self::Whole(0)
    }

    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream)
    }
}

/// Smallest reservation for a body without a known length.
const RESERVED_MIN: u64 = 64 * 1024;
/// Maximum number of bytes that are discarded after a body became too large. A client of HTTP/1 that sends its whole
/// request before it reads would otherwise lose the answer with the connection.
const DISCARDED_MAX: u64 = 16 * 1024 * 1024;

/// Bounds of the messages of a request.
#[derive(Debug, Clone)]
pub(crate) struct MessageBounds {
    /// Maximum time until the end of the request is received, or the next message of a client stream. None: unbounded.
    pub(crate) timeout: Option<Duration>,
    /// The memory of incomplete messages.
    pub(crate) memory: CallShares,
    /// Maximum size of a message. A larger message is refused before memory is reserved for it.
    pub(crate) message_bytes: usize,
    pub(crate) counters: Counters,
}

pub(crate) struct RequestBody {
    inner: Body,
    framing: Framing,
    bounds: MessageBounds,
    /// None: the call has no token. Such calls are few, and their messages small (`public_calls`), so no budget is needed.
    owner: Option<Owner>,
    /// The memory of the message in progress, and its number of bytes.
    reserved: Option<(u64, CallShare)>,
    /// Runs while a message of a client stream, or the end of another request, is awaited.
    timer: Option<Pin<Box<Sleep>>>,
    /// Number of discarded bytes. None: the body is not too large.
    discarded: Option<u64>,
}

impl RequestBody {
    pub(crate) fn new(inner: Body, framing: Framing, bounds: MessageBounds, owner: Option<Owner>) -> Self {
        Self { inner, framing, bounds, owner, reserved: None, timer: None, discarded: None }
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let max = self.bounds.message_bytes as u64;
        let length = match &mut self.framing {
            Framing::Stream => return Ok(()),
            Framing::Messages { reader, is_client_stream } => {
                if reader.read(bytes) {
                    self.reserved = None;
                    // Other services wait for the end of the body, so further messages must not extend the time.
                    if *is_client_stream {
                        self.timer = None;
                    }
                }
                let length = reader.in_progress();
                if length.is_some_and(|length| length > max) {
                    return Err(too_large(max));
                }
                length
            }
            Framing::Whole(received) => {
                *received = received.saturating_add(bytes.len() as u64);
                let announced = self.inner.size_hint().exact().map(|rest| rest.saturating_add(*received));
                if announced.unwrap_or(*received).max(*received) > max {
                    return Err(too_large(max));
                }
                Some(announced.unwrap_or_else(|| received.next_power_of_two().max(RESERVED_MIN)))
            }
        };
        self.reserve(length)
    }

    /// Reserves the memory of a message in progress, unless it is reserved.
    fn reserve(&mut self, length: Option<u64>) -> Result<(), Error> {
        let reserved = self.reserved.as_ref().map(|(bytes, _)| *bytes);
        let (Some(length), Some(owner)) = (length, &self.owner) else { return Ok(()) };
        if reserved.is_none_or(|reserved| reserved < length) {
            self.reserved = None;
            let share = self.bounds.memory.try_acquire(owner, length);
            self.reserved = Some((length, share.inspect_err(|_| self.bounds.counters.count_refusal())?));
        }
        Ok(())
    }

    fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<Error> {
        let Some(timeout) = self.bounds.timeout else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(timeout)));
        ready!(timer.as_mut().poll(context));
        let message = format!("the request was not complete within {} seconds", timeout.as_secs_f64());
        Poll::Ready(Error::new(Code::DeadlineExceeded, Reason::DeadlineExceeded, message))
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let refused = |error: Error| Some(Err(status::from_error(error)));
        loop {
            let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
                return this.poll_timeout(context).map(refused);
            };
            let bytes = match &frame {
                Some(Ok(frame)) => frame.data_ref(),
                Some(Err(_)) | None => None,
            };
            if let Some(discarded) = &mut this.discarded {
                *discarded = discarded.saturating_add(bytes.map_or(0, |bytes| bytes.len() as u64));
                if bytes.is_some() && *discarded < DISCARDED_MAX {
                    continue;
                }
                return Poll::Ready(refused(too_large(this.bounds.message_bytes as u64)));
            }
            match bytes.map(|bytes| this.read(bytes)) {
                Some(Err(error)) if error.reason == Reason::TooLarge => {
                    (this.discarded, this.reserved) = (Some(0), None);
                }
                Some(Err(error)) => return Poll::Ready(refused(error)),
                Some(Ok(())) => return Poll::Ready(frame),
                None => {
                    // The body has ended, or continues with trailers.
                    this.reserved = None;
                    return Poll::Ready(frame);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn too_large(max: u64) -> Error {
    Error::invalid(Reason::TooLarge, format!("the body of the request has more than {max} bytes"))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;

    use folio_permits::Amount;
    use folio_types::{OrgId, UserId};
    use futures::StreamExt as _;
    use http_body::Body as _;
    use proptest::prelude::*;

    use super::*;
    use crate::call_shares::ShareBounds;

    fn message(length: usize) -> Vec<u8> {
        [&[0], u32::try_from(length).unwrap().to_be_bytes().as_slice(), &vec![7; length]].concat()
    }

    /// A body with these parts that never ends.
    fn body(parts: Vec<Vec<u8>>) -> Body {
        let parts = futures::stream::iter(parts).map(|part| Ok::<_, Infallible>(Bytes::from(part)));
        Body::new(axum::body::Body::from_stream(parts.chain(futures::stream::pending())))
    }

    fn bounds(bytes: u64) -> MessageBounds {
        let bounds = [Amount::UNBOUNDED, Amount::UNBOUNDED, Amount { permits: usize::MAX, bytes }];
        let memory = CallShares::new("incomplete messages", ShareBounds::of(bounds));
        MessageBounds {
            timeout: Some(Duration::from_secs(30)),
            memory,
            message_bytes: 1_000,
            counters: Counters::default(),
        }
    }

    fn owner() -> Option<Owner> {
        Some(Owner { org: OrgId::derive(&["a"]), user: UserId::derive(&["b"]) })
    }

    async fn next(body: &mut RequestBody) -> Result<usize, Error> {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await.expect("the body does not end");
        frame.map(|frame| frame.data_ref().map_or(0, Bytes::len)).map_err(|error| status::to_error(&error))
    }

    #[tokio::test]
    async fn the_memory_of_a_message_is_reserved_until_it_is_complete() {
        let (bounds, whole) = (bounds(150), message(100));
        let parts = [&whole[..3], &whole[3..5], &whole[5..50], &whole[50..]].map(<[u8]>::to_vec);
        let mut first = RequestBody::new(body(parts.to_vec()), Framing::messages(true), bounds.clone(), owner());
        let mut reserved = Vec::new();
        for _ in 0..4 {
            next(&mut first).await.unwrap();
            reserved.push(bounds.memory.load().bytes);
        }
        assert_eq!(reserved, [0, 100, 100, 0]);

        let partial =
            || RequestBody::new(body(vec![whole[..50].to_vec()]), Framing::messages(true), bounds.clone(), owner());
        let (mut first, mut second) = (partial(), partial());
        next(&mut first).await.unwrap();
        assert_eq!(next(&mut second).await.unwrap_err().reason, Reason::Overloaded);
        drop(first);
        next(&mut partial()).await.unwrap();
        assert_eq!(bounds.memory.load(), Amount::default());
    }

    #[tokio::test]
    async fn the_decoder_receives_no_message_that_is_too_large() {
        for owner in [owner(), None] {
            let parts: Vec<Vec<u8>> = message(1_001).chunks(400).map(<[u8]>::to_vec).collect();
            let parts = futures::stream::iter(parts).map(|part| Ok::<_, Infallible>(Bytes::from(part)));
            let large = Body::new(axum::body::Body::from_stream(parts));
            let mut large = RequestBody::new(large, Framing::messages(true), bounds(10), owner);
            assert_eq!(next(&mut large).await.unwrap_err().reason, Reason::TooLarge);
            assert_eq!(large.bounds.memory.load(), Amount::default());
        }
        let mut small = RequestBody::new(body(vec![message(1_000)]), Framing::messages(true), bounds(10), None);
        assert_eq!(next(&mut small).await.unwrap(), PREFIX + 1_000);
    }

    #[tokio::test]
    async fn the_memory_of_a_whole_body_is_reserved_as_it_grows() {
        let parts = vec![vec![7; 10], vec![7; 900]];
        let bounds = bounds(2 * RESERVED_MIN);
        let mut first = RequestBody::new(body(parts.clone()), Framing::whole(), bounds.clone(), owner());
        next(&mut first).await.unwrap();
        next(&mut first).await.unwrap();
        assert_eq!(bounds.memory.load().bytes, RESERVED_MIN);
        let mut others =
            [0; 2].map(|_| RequestBody::new(body(parts.clone()), Framing::whole(), bounds.clone(), owner()));
        next(&mut others[0]).await.unwrap();
        assert_eq!(next(&mut others[1]).await.unwrap_err().reason, Reason::Overloaded);
        drop(first);
        next(&mut others[1]).await.unwrap();
        drop(others);
        assert_eq!(bounds.memory.load().bytes, 0);
        let large = futures::stream::iter([1_000, 1].map(|length| Ok::<_, Infallible>(Bytes::from(vec![7; length]))));
        let large = Body::new(axum::body::Body::from_stream(large));
        let mut large = RequestBody::new(large, Framing::whole(), bounds, owner());
        next(&mut large).await.unwrap();
        assert_eq!(next(&mut large).await.unwrap_err().reason, Reason::TooLarge);
    }

    #[tokio::test]
    async fn a_body_that_announces_too_many_bytes_is_refused_at_its_first_byte() {
        let announced = Body::new(http_body_util::Full::new(Bytes::from(vec![7; 1_001])));
        let mut announced = RequestBody::new(announced, Framing::whole(), bounds(10), owner());
        assert_eq!(next(&mut announced).await.unwrap_err().reason, Reason::TooLarge);
        let fits = Body::new(http_body_util::Full::new(Bytes::from(vec![7; 1_000])));
        let bounds = bounds(1_000);
        let mut fits = RequestBody::new(fits, Framing::whole(), bounds.clone(), owner());
        assert_eq!(next(&mut fits).await.unwrap(), 1_000);
        assert!(poll_fn(|context| Pin::new(&mut fits).poll_frame(context)).await.is_none());
        assert_eq!(bounds.memory.load().bytes, 0);
    }

    #[tokio::test]
    async fn bytes_do_not_extend_the_time_of_a_message() {
        let bytes =
            futures::stream::once(async { Ok::<_, Infallible>(Bytes::from_static(&[0, 0xff, 0xff, 0xff, 0xff])) });
        let slow = bytes.chain(futures::stream::repeat(()).then(|()| async {
            tokio::task::yield_now().await;
            Ok(Bytes::from_static(b"x"))
        }));
        let slow = Body::new(axum::body::Body::from_stream(slow));
        let bounds = MessageBounds { timeout: Some(Duration::from_millis(20)), ..bounds(100) };
        let mut body = RequestBody::new(slow, Framing::messages(true), bounds, owner());
        let error = loop {
            if let Err(error) = next(&mut body).await {
                break error;
            }
        };
        assert_eq!(error.code, Code::DeadlineExceeded);
    }

    #[tokio::test(start_paused = true)]
    async fn further_messages_extend_only_the_time_of_a_client_stream() {
        const MESSAGES: usize = 12;
        let (bounds, started) = (bounds(100), tokio::time::Instant::now());
        let timeout = bounds.timeout.unwrap();
        for is_client_stream in [false, true] {
            let messages = futures::stream::repeat(()).then(move |()| async move {
                tokio::time::sleep(timeout / 3).await;
                Ok::<_, Infallible>(Bytes::from_static(&[0; PREFIX]))
            });
            let messages = Body::new(axum::body::Body::from_stream(messages.take(MESSAGES)));
            let mut body = RequestBody::new(messages, Framing::messages(is_client_stream), bounds.clone(), owner());
            let mut received = 0;
            let error = loop {
                match poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
                    Some(Ok(_)) => received += 1,
                    Some(Err(status)) => break Some(status::to_error(&status)),
                    None => break None,
                }
            };
            let code = error.map(|error| error.code);
            assert_eq!(code, (!is_client_stream).then_some(Code::DeadlineExceeded), "{received} messages");
            assert!(is_client_stream || started.elapsed() < 2 * timeout, "{received} messages");
            assert!(!is_client_stream || received == MESSAGES, "{received} messages");
        }
    }

    proptest! {
        #[test]
        fn messages_are_recognized_in_any_chunks(
            lengths in proptest::collection::vec(0..40_usize, 1..6),
            chunks in proptest::collection::vec(1..30_usize, 1..40),
        ) {
            let bytes: Vec<u8> = lengths.iter().flat_map(|length| message(*length)).collect();
            let ends: Vec<usize> = lengths.iter().scan(0, |at, length| { *at += PREFIX + length; Some(*at) }).collect();
            let (mut reader, mut at) = (MessageReader::default(), 0);
            for chunk in chunks {
                let end = (at + chunk).min(bytes.len());
                let is_complete = ends.iter().any(|message| (at + 1..=end).contains(message));
                prop_assert_eq!(reader.read(&bytes[at..end]), is_complete);
                at = end;
                let current = ends.iter().position(|message| *message > at);
                let begin = current.and_then(|index| index.checked_sub(1)).map_or(0, |index| ends[index]);
                let expected = current.filter(|_| at >= begin + PREFIX).map(|index| lengths[index] as u64);
                prop_assert_eq!(reader.in_progress(), expected);
            }
        }
    }
}
