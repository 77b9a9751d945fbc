//! A streaming call in flight: bytes of the connection in, model events out, with time limits.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use folio_breaker::Outcome;
use futures::Stream;
use futures::stream::{BoxStream, StreamExt as _};
use tokio::time::{Instant, Sleep};

use super::attempt::Attempt;
use super::chat::finished;
use super::cut_prompt;
use super::failure::Failure;
use super::streaming_call::SentBody;
use crate::model::{ModelError, ModelEvent, ModelReply, TimeLimit};
use crate::progress::Progress;
use crate::stream::StreamParser;

/// Time limit for usage and end mark after the finish reason. The answer is complete without them.
const AFTER_FINISH: Duration = Duration::from_secs(2);
/// Time limit for the end of the body after the end mark. Only a connection whose body was read to its end is reused.
const AFTER_DONE: Duration = Duration::from_millis(250);
/// Maximum number of bytes that are read after the end mark.
const AFTER_DONE_BYTES: usize = 64 * 1024;
/// Maximum number of reads per poll, so that other tasks can run.
const READS_PER_POLL: u32 = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits for the first token.
    First,
    /// Receives tokens.
    Tokens,
    /// Received the finish reason; usage and end mark may follow.
    Finished,
    /// Received the end mark; the end of the body follows.
    Done,
    Ended,
}

/// A streaming call. Dropping it closes the connection, unless its body was read to the end.
pub(super) struct LiveStream {
    body: Option<BoxStream<'static, Result<Bytes, reqwest::Error>>>,
    parser: StreamParser,
    phase: Phase,
    /// Number of tokens at the start of the current wait, and its start time. Time that the consumer takes does not
    /// count.
    wait_start: Option<(u64, Instant)>,
    timer: Pin<Box<Sleep>>,
    first_end: Instant,
    call_end: Instant,
    bytes_after_done: usize,
    attempt: Attempt,
    request: SentBody,
    progress: Progress,
    /// Bytes of tool call arguments that earlier attempts of the call delivered.
    earlier_call_bytes: usize,
    /// Model name for answers without one.
    model: String,
    /// Lower estimate of the tokens of the prompt.
    fewest_tokens: u64,
    /// The last item of the stream.
    final_item: Option<Result<Box<ModelReply>, Failure>>,
}

impl LiveStream {
    pub(super) fn new(
        response: reqwest::Response,
        attempt: Attempt,
        (model, fewest_tokens): (&str, u64),
        (request, progress): (SentBody, Progress),
        first_end: Instant,
        call_end: Instant,
    ) -> Self {
        Self {
            body: Some(response.bytes_stream().boxed()),
            parser: StreamParser::default(),
            phase: Phase::First,
            wait_start: None,
            timer: Box::pin(tokio::time::sleep_until(first_end.min(call_end))),
            first_end,
            call_end,
            bytes_after_done: 0,
            attempt,
            request,
            earlier_call_bytes: progress.call_bytes(),
            progress,
            model: model.to_owned(),
            fewest_tokens,
            final_item: None,
        }
    }

    /// Returns true if a delta of text was received.
    pub(super) fn has_text(&mut self) -> bool {
        self.parser.assembler().has_text()
    }

    /// Reads until the first token. A failure before it may be retried.
    pub(super) async fn first_token(&mut self) -> Result<(), Failure> {
        std::future::poll_fn(|cx| self.poll_until(cx, |live| live.phase != Phase::First)).await
    }

    /// Reads until `enough` returns true.
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
                self.deadline_passed()
            };
            if let Err(failure) = step {
                self.attempt.record(failure.outcome);
                self.phase = Phase::Ended;
                self.body = None;
                return Poll::Ready(Err(failure));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads once, or fails if the deadline passed.
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
                Poll::Ready(end.map_err(|error| self.invalid_answer(error)).and_then(|()| self.conclude()))
            }
            Poll::Pending => {
                ready!(self.poll_deadline(cx));
                Poll::Ready(self.deadline_passed())
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.phase == Phase::Done {
            self.bytes_after_done = self.bytes_after_done.saturating_add(bytes.len());
            return if self.bytes_after_done > AFTER_DONE_BYTES { self.conclude() } else { Ok(()) };
        }
        let fed = self.parser.feed(bytes);
        let call_bytes = self.parser.assembler().arguments_bytes();
        self.progress.set_call_bytes(self.earlier_call_bytes.saturating_add(call_bytes));
        fed.map_err(|error| self.invalid_answer(error))?;
        let assembler = self.parser.assembler();
        let phase = match (assembler.is_done(), assembler.is_finished(), assembler.has_started()) {
            (true, true, _) => Phase::Done,
            // The end mark arrived without a finish reason; the parser returns the error.
            (true, false, _) => return self.parser.end().map_err(|error| self.invalid_answer(error)),
            (false, true, _) => Phase::Finished,
            (false, false, true) => Phase::Tokens,
            (false, false, false) => Phase::First,
        };
        if phase != self.phase {
            if self.phase == Phase::First {
                self.attempt.record_first_token();
            }
            self.phase = phase;
            self.wait_start = None;
        }
        Ok(())
    }

    /// Returns the deadline of the current wait.
    fn deadline(&mut self) -> Instant {
        let tokens = self.parser.assembler().tokens();
        let since = match self.wait_start {
            Some((seen, since)) if seen == tokens => since,
            _ => {
                let now = Instant::now();
                self.wait_start = Some((tokens, now));
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

    /// Ready when the deadline of the current wait has passed. Each token extends the deadline, but the timer is reset
    /// only when it fires, so that a token does not cost a timer operation.
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

    /// Handles a passed deadline: ends a complete answer, otherwise fails.
    fn deadline_passed(&mut self) -> Result<(), Failure> {
        match self.phase {
            Phase::Finished | Phase::Done | Phase::Ended => self.conclude(),
            _ if Instant::now() >= self.call_end => Err(Failure::timeout(TimeLimit::WholeCall)),
            Phase::First => Err(Failure::unhealthy(ModelError::Timeout(TimeLimit::FirstToken))),
            Phase::Tokens => Err(Failure::unhealthy(ModelError::Timeout(TimeLimit::BetweenTokens))),
        }
    }

    fn invalid_answer(&self, error: crate::stream::StreamError) -> Failure {
        Failure::invalid_answer(error, &self.attempt.endpoint().key)
    }

    fn conclude(&mut self) -> Result<(), Failure> {
        self.body = None;
        let read = self.parser.assembler().read_tokens();
        let assembled = self.parser.assembler().take_reply();
        let (reply, usage) = assembled.map_err(|error| self.invalid_answer(error))?;
        cut_prompt::check(self.fewest_tokens, read).map_err(Failure::refusal)?;
        self.attempt.record(Outcome::Success);
        self.final_item =
            Some(Ok(Box::new(finished(reply, usage, (&self.request.json, self.request.images.1), &self.model))));
        self.phase = Phase::Ended;
        Ok(())
    }
}

impl Stream for LiveStream {
    type Item = Result<ModelEvent, Failure>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Err(failure) = ready!(this.poll_until(cx, |live| live.parser.assembler().has_event())) {
            this.final_item = Some(Err(failure));
        }
        // Events before an error in the same read are still returned.
        if let Some(event) = this.parser.assembler().next_event() {
            return Poll::Ready(Some(Ok(event)));
        }
        Poll::Ready(this.final_item.take().map(|final_item| final_item.map(ModelEvent::Done)))
    }
}
