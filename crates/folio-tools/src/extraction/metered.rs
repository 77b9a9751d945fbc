//! A model call under the meter: permitted before, settled after, whatever happens between.

use std::time::Duration;

use folio_llm::{ModelError, ModelReply, ModelRequest};
use folio_metering::{AbandonedCalls, MeteredCall, Permit, Settlement, SharedMeter};
use folio_types::message::Usage;
use folio_types::{Error, Result};
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
    let mut open = Open { meter, tasks, permit: Some(permit), counted };
    let models = resources.models.clone();
    let answered = async move {
        let answer = models.complete(request).await;
        let settlement = match &answer {
            Ok(reply) => Settlement::Completed(reply.usage),
            Err(error) if !error.may_cost() => Settlement::NotSent,
            Err(_) => Settlement::Partial(sent(counted)),
        };
        if let Err(error) = open.settle(settlement).await {
            tracing::error!(%error, "a model call could not be settled");
        }
        answer
    };
    match resources.meter.abandoned_calls() {
        AbandonedCalls::Cut => Ok(answered.await),
        AbandonedCalls::Drain => {
            let answered = resources.tasks.spawn(answered).await;
            answered.map_err(|error| Error::internal(format!("a model call broke off: {error}")))
        }
    }
}

/// What a call that gave nothing used: its prompt, as counted here.
fn sent(input_tokens: u64) -> Usage {
    Usage { input_tokens, model_calls: 1, ..Usage::default() }
}

/// A permit that is not settled yet.
struct Open {
    meter: SharedMeter,
    tasks: TaskTracker,
    permit: Option<Permit>,
    counted: u64,
}

impl Open {
    async fn settle(&mut self, settlement: Settlement) -> Result<()> {
        match self.permit.take() {
            Some(permit) => self.meter.settle(permit, settlement).await,
            None => Ok(()),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let (meter, settlement) = (self.meter.clone(), Settlement::Partial(sent(self.counted)));
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
