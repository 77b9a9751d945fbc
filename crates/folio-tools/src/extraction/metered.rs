//! A metered model call: credit is reserved before the call and settled after it in every case.

use std::sync::Arc;
use std::time::Duration;

use folio_llm::{ModelError, ModelReply, ModelRequest, Progress};
use folio_metering::{AbandonedCalls, MeteredCall, Permit, Settlement, SharedMeter};
use folio_types::message::Usage;
use folio_types::{Error, Result};
use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

use crate::tool::ToolResources;

/// Time limit for settling a dropped call.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes one model call. The usage of the reply contains the charged credits. Dropping the future (the turn was cancelled)
/// settles the reservation too.
///
/// # Errors
/// Outer error: the meter issued no permit, or the task of the call failed. Inner error: the model call failed.
pub async fn complete_metered(
    resources: &ToolResources,
    call: MeteredCall,
    mut request: ModelRequest,
) -> Result<Result<ModelReply, ModelError>> {
    request.call_id.clone_from(&call.key);
    let (models, progress) = (Arc::clone(&resources.models), request.progress.clone());
    metered(resources, call, progress, async move { models.complete(request).await }).await
}

/// The answer of a model call.
pub(crate) trait Answer: Send + 'static {
    fn usage(&mut self) -> &mut Usage;
}

impl Answer for ModelReply {
    fn usage(&mut self) -> &mut Usage {
        &mut self.usage
    }
}

/// Reserves the credit of a model call, makes the call, and settles it, as [`complete_metered`] does. `progress`: the
/// progress of the call.
pub(crate) async fn metered<T: Answer>(
    resources: &ToolResources,
    call: MeteredCall,
    progress: Progress,
    make: impl Future<Output = Result<T, ModelError>> + Send + 'static,
) -> Result<Result<T, ModelError>> {
    let counted = call.input_tokens;
    let permit = resources.meter.request_permit(call).await?;
    let (meter, tasks) = (resources.meter.clone(), resources.tasks.clone());
    let abandoned_calls = permit.abandoned_calls;
    let mut unsettled = Unsettled { meter, tasks, permit: Some(permit), counted, progress: progress.clone() };
    let answered = async move {
        let mut answer = make.await;
        let settlement = match &mut answer {
            Ok(answer) => Settlement::Completed(*answer.usage()),
            Err(_) => unsettled.without_reply(),
        };
        match (unsettled.settle(settlement).await, &mut answer) {
            (Ok(credits), Ok(answer)) => answer.usage().credits = credits,
            (Ok(_), Err(_)) => {}
            (Err(error), _) => tracing::error!(%error, "model call not settled"),
        }
        answer
    };
    match abandoned_calls {
        AbandonedCalls::Abort => Ok(answered.await),
        AbandonedCalls::Drain => {
            let task = resources.tasks.spawn(answered);
            let _abort = AbortUnsent { progress, task: task.abort_handle() };
            task.await.map_err(|error| Error::internal(format!("the task of a model call failed: {error}")))
        }
    }
}

/// Aborts the task of a model call when its caller is dropped before the request was sent. A sent request runs to its
/// end, so that its usage is known.
struct AbortUnsent {
    progress: Progress,
    task: AbortHandle,
}

impl Drop for AbortUnsent {
    fn drop(&mut self) {
        if !self.progress.is_sent() {
            self.task.abort();
        }
    }
}

/// An unsettled reservation. Dropping it settles it in a background task.
struct Unsettled {
    meter: SharedMeter,
    tasks: TaskTracker,
    permit: Option<Permit>,
    counted: u64,
    progress: Progress,
}

impl Unsettled {
    /// Returns the charged credits.
    async fn settle(&mut self, settlement: Settlement) -> Result<u64> {
        match self.permit.take() {
            Some(permit) => self.meter.settle(permit, settlement).await,
            None => Ok(0),
        }
    }

    /// Returns the settlement of a call without a reply: the counted prompt tokens if the request was sent, else
    /// nothing.
    fn without_reply(&self) -> Settlement {
        if self.progress.is_sent() {
            Settlement::Partial(Usage { input_tokens: self.counted, model_calls: 1, ..Usage::default() })
        } else {
            Settlement::NotSent
        }
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let (meter, settlement) = (self.meter.clone(), self.without_reply());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // A drain waits for this task, so it makes only one write, with a time limit.
            let settle = async move {
                match tokio::time::timeout(SETTLE_TIMEOUT, meter.settle(permit, settlement)).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::warn!(%error, "dropped model call not settled"),
                    Err(_) => tracing::warn!("dropped model call not settled in time"),
                }
            };
            self.tasks.spawn_on(settle, &runtime);
        }
    }
}
