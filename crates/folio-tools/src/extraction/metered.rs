//! A model call under the meter: permitted before, settled after, whatever happens between.

use std::time::Duration;

use folio_llm::{ModelError, ModelReply, ModelRequest, Progress};
use folio_metering::{AbandonedCalls, MeteredCall, Permit, Settlement, SharedMeter};
use folio_types::message::Usage;
use folio_types::{Error, Result};
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

use crate::tool::ToolResources;

/// How long the settlement of a dropped call may take.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);

/// Makes one call. A call that is dropped half-way (its turn was cancelled) is settled all the same. The outer error is the
/// meter's: the call was not made; the inner one the model's.
pub async fn complete(
    resources: &ToolResources,
    call: MeteredCall,
    request: ModelRequest,
) -> Result<Result<ModelReply, ModelError>> {
    let counted = call.input_tokens;
    let permit = resources.meter.permit(call).await?;
    let (meter, tasks) = (resources.meter.clone(), resources.tasks.clone());
    let progress = request.progress.clone();
    let mut open = Open { meter, tasks, permit: Some(permit), counted, progress: progress.clone() };
    let models = resources.models.clone();
    let answered = async move {
        let answer = models.complete(request).await;
        let settlement = match &answer {
            Ok(reply) => Settlement::Completed(reply.usage),
            Err(_) => open.unanswered(),
        };
        if let Err(error) = open.settle(settlement).await {
            tracing::error!(%error, "a model call could not be settled");
        }
        answer
    };
    match resources.meter.abandoned_calls() {
        AbandonedCalls::Cut => Ok(answered.await),
        AbandonedCalls::Drain => {
            let task = resources.tasks.spawn(answered);
            let _wanted = Wanted { progress, task: task.abort_handle() };
            task.await.map_err(|error| Error::internal(format!("a model call broke off: {error}")))
        }
    }
}

/// A call that somebody waits for. Dropped before it was sent it is not made: of such a one there is no answer to be read.
struct Wanted {
    progress: Progress,
    task: AbortHandle,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        if !self.progress.is_sent() {
            self.task.abort();
        }
    }
}

/// A permit that is not settled yet.
struct Open {
    meter: SharedMeter,
    tasks: TaskTracker,
    permit: Option<Permit>,
    counted: u64,
    progress: Progress,
}

impl Open {
    async fn settle(&mut self, settlement: Settlement) -> Result<()> {
        match self.permit.take() {
            Some(permit) => self.meter.settle(permit, settlement).await,
            None => Ok(()),
        }
    }

    /// How it is settled without an answer: where it may have reached the provider it used its prompt, as counted here.
    fn unanswered(&self) -> Settlement {
        if self.progress.is_sent() {
            Settlement::Partial(Usage { input_tokens: self.counted, model_calls: 1, ..Usage::default() })
        } else {
            Settlement::NotSent
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let (meter, settlement) = (self.meter.clone(), self.unanswered());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // Nobody waits for the call any more, but a drain waits for its settlement: one write, bounded in time.
            let settle = async move {
                match tokio::time::timeout(SETTLE_WITHIN, meter.settle(permit, settlement)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "a dropped model call could not be settled"),
                    Err(_) => tracing::warn!("a dropped model call was not settled in time"),
                }
            };
            self.tasks.spawn_on(settle, &runtime);
        }
    }
}
