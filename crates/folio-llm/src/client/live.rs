//! A stream that is under way: bytes of the connection in, model events out, with its time-outs.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream::{BoxStream, StreamExt as _};
use tokio::time::{Instant, Sleep};

use super::attempt::Attempt;
use super::chat::finished;
use super::failure::Failure;
use super::places::Place;
use crate::model::{ModelError, ModelEvent, ModelReply};
use crate::progress::Progress;
use crate::stream::StreamParser;
use folio_breaker::Outcome;

/// How long usage and end mark are waited for after the finish reason; the answer is whole without them.
const AFTER_FINISH: Duration = Duration::from_secs(2);
/// How long, and for how many bytes, the end of the body is waited for after the end mark. A connection whose body was
/// read to its end serves the next call.
const AFTER_DONE: Duration = Duration::from_millis(250);
const AFTER_DONE_BYTES: usize = 64 * 1024;
/// Reads in one poll before others get their turn.
const READS_PER_POLL: u32 = 64;

/// Where the stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No token has come.
    First,
    /// Tokens come.
    Tokens,
    /// The finish reason has come: usage and end mark may follow.
    Finished,
    /// The end mark has come: the body's end follows.
    Done,
    /// Nothing is read any more.
    Ended,
}

/// One streaming call. Dropping it closes the connection, unless its body was read to the end.
pub(super) struct LiveStream {
    body: Option<BoxStream<'static, Result<Bytes, reqwest::Error>>>,
    parser: StreamParser,
    phase: Phase,
    /// The tokens seen when waiting began, and when that was: time that the consumer takes is not counted.
    waiting: Option<(u64, Instant)>,
    timer: Pin<Box<Sleep>>,
    first_end: Instant,
    call_end: Instant,
    bytes_after_done: usize,
    attempt: Attempt,
    /// Held until the stream is dropped.
    place: Option<Place>,
    request: Bytes,
    progress: Progress,
    /// The name for answers that give none.
    model: String,
    /// The last item, once it is known.
    last: Option<Result<Box<ModelReply>, ModelError>>,
}

impl LiveStream {
    pub(super) fn new(
        response: reqwest::Response,
        attempt: Attempt,
        model: &str,
        (request, progress): (Bytes, Progress),
        first_end: Instant,
        call_end: Instant,
    ) -> Self {
        Self {
            body: Some(response.bytes_stream().boxed()),
            parser: StreamParser::default(),
            phase: Phase::First,
            waiting: None,
            timer: Box::pin(tokio::time::sleep_until(first_end.min(call_end))),
            first_end,
            call_end,
            bytes_after_done: 0,
            attempt,
            place: None,
            request,
            progress,
            model: model.to_owned(),
            last: None,
        }
    }

    /// Keeps the call's place until the stream is dropped.
    pub(super) fn keep(&mut self, place: Place) {
        self.place = Some(place);
    }

    /// Reads until the first token. What fails until then may be tried again.
    pub(super) async fn first_token(&mut self) -> Result<(), Failure> {
        std::future::poll_fn(|cx| self.poll_until(cx, |live| live.phase != Phase::First)).await
    }

    /// Reads until `enough` holds.
    fn poll_until(&mut self, cx: &mut Context<'_>, enough: impl Fn(&mut Self) -> bool) -> Poll<Result<(), Failure>> {
        let mut reads = 0;
        while self.phase != Phase::Ended && !enough(self) {
            reads += 1;
            let step = if reads <= READS_PER_POLL {
                ready!(self.poll_read(cx))
            } else if Instant::now() < self.deadline() {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            } else {
                self.out_of_time()
            };
            if let Err(failure) = step {
                self.attempt.note(failure.outcome);
                self.phase = Phase::Ended;
                self.body = None;
                return Poll::Ready(Err(failure));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once, or finds that the time is over.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let Some(body) = &mut self.body else {
            self.conclude()?;
            return Poll::Ready(Ok(()));
        };
        match body.poll_next_unpin(cx) {
            Poll::Ready(Some(Ok(bytes))) => Poll::Ready(self.take(&bytes)),
            Poll::Ready(Some(Err(_))) if self.parser.assembler().is_finished() => Poll::Ready(self.conclude()),
            Poll::Ready(Some(Err(error))) => {
                let endpoint = self.attempt.endpoint();
                Poll::Ready(Err(Failure::connection(&endpoint.name, error, &endpoint.key)))
            }
            Poll::Ready(None) => {
                let end = self.parser.end();
                Poll::Ready(end.map_err(|error| self.unreadable(error)).and_then(|()| self.conclude()))
            }
            Poll::Pending => {
                ready!(self.poll_deadline(cx));
                Poll::Ready(self.out_of_time())
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.phase == Phase::Done {
            self.bytes_after_done = self.bytes_after_done.saturating_add(bytes.len());
            return if self.bytes_after_done > AFTER_DONE_BYTES { self.conclude() } else { Ok(()) };
        }
        let fed = self.parser.feed(bytes);
        self.progress.set_call_bytes(self.parser.assembler().arguments_bytes());
        fed.map_err(|error| self.unreadable(error))?;
        let assembler = self.parser.assembler();
        let phase = match (assembler.is_done(), assembler.is_finished(), assembler.is_begun()) {
            (true, true, _) => Phase::Done,
            // The end mark came without a finish reason: the parser's end says so.
            (true, false, _) => return self.parser.end().map_err(|error| self.unreadable(error)),
            (false, true, _) => Phase::Finished,
            (false, false, true) => Phase::Tokens,
            (false, false, false) => Phase::First,
        };
        if phase != self.phase {
            if self.phase == Phase::First {
                self.attempt.answering();
            }
            self.phase = phase;
            self.waiting = None;
        }
        Ok(())
    }

    /// When the present wait is over.
    fn deadline(&mut self) -> Instant {
        let tokens = self.parser.assembler().tokens();
        let since = match self.waiting {
            Some((seen, since)) if seen == tokens => since,
            _ => {
                let now = Instant::now();
                self.waiting = Some((tokens, now));
                now
            }
        };
        let end = match self.phase {
            Phase::First => self.first_end,
            Phase::Tokens => since + self.attempt.endpoint().timeouts.between_tokens_seconds,
            Phase::Finished => since + AFTER_FINISH,
            Phase::Done | Phase::Ended => since + AFTER_DONE,
        };
        end.min(self.call_end)
    }

    /// Ready when the present wait is over. Each token moves the deadline on; the timer follows only when it fires, so
    /// that a token costs no timer.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = self.deadline();
        if self.timer.deadline() > deadline {
            self.timer.as_mut().reset(deadline);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if self.timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            self.timer.as_mut().reset(deadline);
        }
    }

    /// What it means that the wait is over.
    fn out_of_time(&mut self) -> Result<(), Failure> {
        match self.phase {
            Phase::Finished | Phase::Done | Phase::Ended => self.conclude(),
            _ if Instant::now() >= self.call_end => Err(Failure::out_of_time()),
            Phase::First => Err(Failure::sick(ModelError::Timeout("first token"))),
            Phase::Tokens => Err(Failure::sick(ModelError::Timeout("between tokens"))),
        }
    }

    fn unreadable(&self, error: crate::stream::StreamError) -> Failure {
        Failure::answer(error, &self.attempt.endpoint().key)
    }

    /// The answer is whole.
    fn conclude(&mut self) -> Result<(), Failure> {
        self.body = None;
        let assembled = self.parser.assembler().take_reply();
        let (reply, usage) = assembled.map_err(|error| self.unreadable(error))?;
        self.attempt.note(Outcome::Success);
        self.last = Some(Ok(Box::new(finished(reply, usage, &self.request, &self.model))));
        self.phase = Phase::Ended;
        Ok(())
    }
}

impl Stream for LiveStream {
    type Item = Result<ModelEvent, ModelError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Err(failure) = ready!(this.poll_until(cx, |live| live.parser.assembler().has_event())) {
            this.last = Some(Err(failure.error));
        }
        // What came before an error in the same read still counts.
        if let Some(event) = this.parser.assembler().next_event() {
            return Poll::Ready(Some(Ok(event)));
        }
        if this.last.is_some() {
            // The place is free for the next call before the consumer drops the stream.
            this.place = None;
        }
        Poll::Ready(this.last.take().map(|last| last.map(ModelEvent::Done)))
    }
}
