//! Reads a model's stream. The first delta is sent to the actor at once, later ones in groups of 10 ms.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use folio_llm::{ModelError, ModelEvent, ModelReply, ModelRequest, ModelStream, Progress};
use folio_types::limits::MODEL_TEXT_BYTES;
use folio_types::message::Usage;
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::model::ModelWork;
use crate::actor::{Deltas, TaskMsg};
use crate::turn::Delta;
use crate::window::estimated_tokens;

/// Bytes of unsent deltas at which reading pauses until they are sent.
const BATCH_BYTES: usize = 16 * 1024;
/// Maximum number of ready events that are taken before the other conditions of the call are checked.
const EVENTS_AT_ONCE: usize = 64;
/// Minimum time between two messages with deltas. A message costs the actor, the gateway and the client about as much
/// as a hundred deltas in it.
const BATCH_INTERVAL: Duration = Duration::from_millis(10);

/// Result of reading a model's stream.
pub(super) enum ReadOutcome {
    /// The answer is complete.
    Complete(Box<ModelReply>),
    /// The call was stopped before its request was sent.
    NotSent,
    /// The call was stopped, and its request may have reached the provider.
    Stopped(AbandonedAnswer),
    /// The call failed. `sent`: the provider may charge for the request. `output`: estimated tokens that were received.
    Failed { error: ModelError, sent: bool, output: usize },
    /// The running time of the turn is over. The other values are those of `Failed`.
    OutOfTime { sent: bool, output: usize },
}

/// The unread rest of an abandoned answer. Dropping it aborts the request.
pub(super) struct AbandonedAnswer {
    stream: ModelStream,
    progress: Progress,
    /// Estimated tokens of text and thinking that were received.
    text_tokens: usize,
}

impl AbandonedAnswer {
    /// Returns the estimated tokens that were received.
    pub(super) fn output(&self) -> usize {
        output(self.text_tokens, &self.progress)
    }

    /// Reads the answer to its end, or until `stop`. The time limits of the call apply. Returns the usage that the
    /// provider reported. None: the provider reported none.
    pub(super) async fn drain(&mut self, stop: &CancellationToken) -> Option<Usage> {
        loop {
            let item = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                item = self.stream.next() => item?,
            };
            match item.ok()? {
                ModelEvent::Done(reply) => return Some(reply.usage),
                ModelEvent::Text(text) | ModelEvent::Thinking(text) => {
                    self.text_tokens = self.text_tokens.saturating_add(estimated_tokens(&text));
                }
            }
        }
    }
}

/// Sends the request and reads its answer, unless the call's token is cancelled.
pub(super) async fn read(call: &ModelWork, request: ModelRequest) -> ReadOutcome {
    let token = &call.work.token;
    if token.is_cancelled() {
        return ReadOutcome::NotSent;
    }
    let progress = request.progress.clone();
    let failed = |error, deltas: &Batch| {
        let (sent, output) = (progress.is_sent(), output(deltas.tokens, &progress));
        ReadOutcome::Failed { error, sent, output }
    };
    let models = Arc::clone(&call.work.shared.dependencies.models);
    let mut stream = stream::once(async move { models.stream(request).await }).try_flatten().boxed();
    let mut deltas = Batch::default();
    let slot = Arc::new(Semaphore::new(1));
    let mut cancelled = pin!(token.cancelled());
    let mut out_of_time = pin!(async {
        match call.deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    });
    let mut interval = pin!(sleep_until(Instant::now()));
    loop {
        tokio::select! {
            biased;
            // A request that waits in the endpoint's queue is not sent afterwards.
            () = cancelled.as_mut() => return if progress.is_sent() {
                ReadOutcome::Stopped(AbandonedAnswer { stream, text_tokens: deltas.tokens, progress: progress.clone() })
            } else {
                ReadOutcome::NotSent
            },
            () = out_of_time.as_mut() => {
                deltas.send(call, None);
                return ReadOutcome::OutOfTime { sent: progress.is_sent(), output: output(deltas.tokens, &progress) };
            }
            taken = deltas.take_ready(&mut stream), if deltas.batch_bytes < BATCH_BYTES => {
                if let ControlFlow::Break(end) = taken {
                    deltas.send(call, None);
                    return match end {
                        Ok(reply) => ReadOutcome::Complete(reply),
                        Err(error) => failed(error, &deltas),
                    };
                }
            }
            // The interval is over, and the actor has handled the previous message.
            permit = async {
                interval.as_mut().await;
                slot.clone().acquire_owned().await
            }, if !deltas.waiting.is_empty() => {
                deltas.send(call, permit.ok());
                interval.as_mut().reset(Instant::now() + BATCH_INTERVAL);
            }
        }
        if deltas.bytes > 2 * MODEL_TEXT_BYTES {
            return failed(ModelError::TooLarge("text and thinking"), &deltas);
        }
    }
}

/// Estimates the received tokens of text and thinking, and of tool calls, which are mostly ASCII.
fn output(text_tokens: usize, progress: &Progress) -> usize {
    text_tokens.saturating_add(progress.call_bytes().div_ceil(4))
}

/// Deltas that have not been sent. Adjacent deltas of the same kind are merged.
#[derive(Default)]
struct Batch {
    waiting: Vec<Delta>,
    /// Bytes of `waiting`.
    batch_bytes: usize,
    bytes: usize,
    tokens: usize,
}

/// The end of a model's stream: its reply or an error.
type StreamEnd = Result<Box<ModelReply>, ModelError>;

impl Batch {
    /// Waits for an event and takes it together with the events that are ready, because a read of the connection often
    /// contains many. Cancelling the call loses no event.
    async fn take_ready(&mut self, stream: &mut ModelStream) -> ControlFlow<StreamEnd> {
        let mut item = stream.next().await;
        for _ in 1..EVENTS_AT_ONCE {
            self.take(item)?;
            if self.batch_bytes >= BATCH_BYTES {
                return ControlFlow::Continue(());
            }
            match stream.next().now_or_never() {
                Some(next) => item = next,
                None => return ControlFlow::Continue(()),
            }
        }
        self.take(item)
    }

    fn take(&mut self, item: Option<Result<ModelEvent, ModelError>>) -> ControlFlow<StreamEnd> {
        match item {
            Some(Ok(ModelEvent::Text(text))) => self.add(Delta::Text(text)),
            Some(Ok(ModelEvent::Thinking(text))) => self.add(Delta::Thinking(text)),
            Some(Ok(ModelEvent::Done(reply))) => return ControlFlow::Break(Ok(reply)),
            Some(Err(error)) => return ControlFlow::Break(Err(error)),
            None => {
                let error = ModelError::Failed("the stream ended without an answer".to_owned());
                return ControlFlow::Break(Err(error));
            }
        }
        ControlFlow::Continue(())
    }

    fn add(&mut self, delta: Delta) {
        let (Delta::Text(text) | Delta::Thinking(text)) = &delta;
        if text.is_empty() {
            return;
        }
        self.bytes = self.bytes.saturating_add(text.len());
        self.batch_bytes = self.batch_bytes.saturating_add(text.len());
        self.tokens = self.tokens.saturating_add(estimated_tokens(text));
        match (self.waiting.last_mut(), delta) {
            (Some(Delta::Text(last)), Delta::Text(next)) | (Some(Delta::Thinking(last)), Delta::Thinking(next)) => {
                last.push_str(&next);
            }
            (_, delta) => self.waiting.push(delta),
        }
    }

    fn send(&mut self, call: &ModelWork, slot: Option<tokio::sync::OwnedSemaphorePermit>) {
        if self.waiting.is_empty() {
            return;
        }
        let deltas = std::mem::take(&mut self.waiting);
        self.batch_bytes = 0;
        call.work.send(TaskMsg::Deltas(Deltas { round: call.call.round, attempt: call.call.attempt, deltas, slot }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Result<ModelEvent, ModelError> {
        Ok(ModelEvent::Text(text.to_owned()))
    }

    fn is_waiting(batch: &Batch, expected: &str) -> bool {
        matches!(batch.waiting.as_slice(), [Delta::Text(text)] if text == expected)
    }

    #[tokio::test]
    async fn ready_events_are_taken_in_order_up_to_the_bounds_of_a_batch() {
        let mut batch = Batch::default();
        let pending = stream::iter([text("a"), text("b")]).chain(stream::pending());
        assert!(batch.take_ready(&mut pending.boxed()).await.is_continue());
        assert!(is_waiting(&batch, "ab"));

        let mut many = stream::iter((0..EVENTS_AT_ONCE + 2).map(|_| text("x"))).boxed();
        let mut batch = Batch::default();
        assert!(batch.take_ready(&mut many).await.is_continue());
        assert!(is_waiting(&batch, &"x".repeat(EVENTS_AT_ONCE)));
        let ended = batch.take_ready(&mut many).await;
        assert!(matches!(ended, ControlFlow::Break(Err(ModelError::Failed(_)))));
        assert!(is_waiting(&batch, &"x".repeat(EVENTS_AT_ONCE + 2)), "no event is lost at the bound");

        let large = "y".repeat(BATCH_BYTES);
        let mut batch = Batch::default();
        let mut more = stream::iter([text(&large), text("z")]).boxed();
        assert!(batch.take_ready(&mut more).await.is_continue());
        assert!(is_waiting(&batch, &large));
    }
}
