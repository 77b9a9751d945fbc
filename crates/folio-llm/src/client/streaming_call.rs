//! A streaming call with its retries. A failure before the first token, or a stream that breaks before it delivers text, causes a
//! retry. Deltas of tool calls are never shown, so they do not prevent a retry.

use std::sync::Arc;

use bytes::Bytes;
use folio_permits::Permit;
use folio_types::OrgId;
use futures::stream::{self, StreamExt as _};
use reqwest::header::CONTENT_TYPE;
use tokio::time::Instant;

use super::attempt::{Attempt, Attempts};
use super::endpoint::{EVENT_STREAM, Endpoint};
use super::failure::Failure;
use super::live::LiveStream;
use crate::model::{ModelError, ModelEvent, ModelStream, TimeLimit};
use crate::options::BYTES_PER_TOKEN;
use crate::progress::Progress;

/// The body of a streaming request.
#[derive(Clone)]
pub(super) struct SentBody {
    pub(super) json: Bytes,
    /// The bytes of the images in the body, and an upper estimate of their tokens.
    pub(super) images: (usize, u64),
}

impl SentBody {
    /// Returns the size of a body with as many tokens and without images.
    fn text_bytes(&self) -> usize {
        let (bytes, tokens) = self.images;
        let of_images = usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
        self.json.len().saturating_sub(bytes).saturating_add(of_images)
    }
}

pub(super) struct StreamingCall {
    pub(super) endpoint: Arc<Endpoint>,
    /// Model name for answers without one.
    pub(super) model: String,
    pub(super) call_id: String,
    pub(super) body: SentBody,
    /// Lower estimate of the tokens of the prompt.
    pub(super) fewest_tokens: u64,
    pub(super) progress: Progress,
    pub(super) call_end: Instant,
}

impl StreamingCall {
    /// Makes attempts until the first token of one arrives. The stream keeps the permit until it ends or is dropped.
    pub(super) async fn start(self, permit: Permit<OrgId>) -> Result<ModelStream, ModelError> {
        let mut attempts = Attempts::new(&self.endpoint, self.call_end, self.progress.clone());
        let live = attempts.run(|attempt| self.attempt(attempt)).await?;
        let running = Box::new(Running { call: self, attempts, live, _permit: permit });
        Ok(stream::unfold(Some(running), next_event).boxed())
    }

    /// Makes one attempt, up to its first token.
    async fn attempt(&self, mut attempt: Attempt) -> Result<Box<LiveStream>, Failure> {
        let first_end = Instant::now() + self.endpoint.timeouts.first_token(self.body.text_bytes());
        let end = if first_end < self.call_end {
            (first_end, TimeLimit::FirstToken)
        } else {
            (self.call_end, TimeLimit::WholeCall)
        };
        let sent = self.endpoint.send_streaming(&self.call_id, &self.body.json, end).await;
        let response = attempt.check(sent.and_then(event_stream))?;
        let sent = (self.body.clone(), self.progress.clone());
        let model = (self.model.as_str(), self.fewest_tokens);
        let mut live = LiveStream::new(response, attempt, model, sent, first_end, self.call_end);
        live.first_token().await?;
        Ok(Box::new(live))
    }
}

/// A call whose first token arrived.
struct Running {
    call: StreamingCall,
    attempts: Attempts,
    live: Box<LiveStream>,
    _permit: Permit<OrgId>,
}

impl Running {
    /// Returns the next event. A failure before any text starts further attempts.
    async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        let Self { call, attempts, live, .. } = self;
        let call = &*call;
        loop {
            let failure = match live.next().await? {
                Ok(event) => return Some(Ok(event)),
                Err(failure) => failure,
            };
            if live.has_text() {
                return Some(Err(failure.error));
            }
            if let Err(error) = attempts.wait_for_retry(failure).await {
                return Some(Err(error));
            }
            match attempts.run(|attempt| call.attempt(attempt)).await {
                Ok(next) => *live = next,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Returns the next item of the stream and the state after it. The last item is the reply or an error; the state is
/// dropped before it is returned, so that the next call gets the permit before the consumer drops the stream.
async fn next_event(running: Option<Box<Running>>) -> Option<(Result<ModelEvent, ModelError>, Option<Box<Running>>)> {
    let mut running = running?;
    let item = running.next().await?;
    let is_last = !matches!(item, Ok(ModelEvent::Text(_) | ModelEvent::Thinking(_)));
    Some((item, (!is_last).then_some(running)))
}

/// Rejects a response whose content type is not an event stream.
fn event_stream(response: reqwest::Response) -> Result<reqwest::Response, Failure> {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or(EVENT_STREAM);
    if kind.trim_start().to_ascii_lowercase().starts_with(EVENT_STREAM) {
        return Ok(response);
    }
    let kind: String = kind.chars().take(80).collect();
    Err(Failure::unhealthy(ModelError::Failed(format!("expected content type text/event-stream, got {kind:?}"))))
}
