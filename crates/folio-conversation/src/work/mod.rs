//! Slow work of a conversation. The node's tracker owns each task, the conversation's token stops it, and its result
//! returns to the actor as a command of the machine.

mod answer;
mod audit;
mod children;
mod images;
mod model;
mod model_stream;
mod recovery;
mod store;
mod store_wait;
mod tools;
mod usage_recorder;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use folio_types::{Error, OrgId, Reason, Result, ThreadId};
use ractor::ActorRef;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::actor::{Msg, TaskMsg};
use crate::shared::Shared;
use crate::turn::Command;

pub(crate) use model::ModelWork;
pub(crate) use tools::ToolWork;
pub(crate) use usage_recorder::UsageRecorder;

/// First pause before a retry.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// Maximum pause before a retry.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Environment of a conversation's task.
#[derive(Clone)]
pub(crate) struct TaskContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) org: OrgId,
    pub(crate) thread: ThreadId,
    /// Actor that receives the results.
    pub(crate) actor: ActorRef<Msg>,
    /// Generation of the machine that started the task. The actor drops results for an older machine.
    pub(crate) generation: u64,
    pub(crate) token: CancellationToken,
    /// Span of the round or turn that started the task.
    pub(crate) span: Span,
}

impl TaskContext {
    /// Runs a task until it ends or the token stops it.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let (token, mut task) = (self.token.clone(), Box::pin(task));
        self.track(async move {
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                () = task.as_mut() => {}
            }
        });
    }

    /// Runs a task that must check the token itself, because it cleans up when it is stopped.
    pub(crate) fn spawn_uncancelled(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.track(Box::pin(task));
    }

    /// Starts a task. `task` should be small, because its start moves it several times.
    fn track(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.tracker.spawn(task.instrument(self.span.clone()));
    }

    /// Waits at a failpoint unless the token is cancelled.
    pub(crate) async fn hit_failpoint(&self, stage: &str, position: &str) {
        tokio::select! {
            biased;
            () = self.token.cancelled() => {}
            () = self.shared.dependencies.failpoints.hit(stage, position) => {}
        }
    }

    /// Repeats a store operation until it succeeds, at most `attempts` times. Returns the last error.
    pub(crate) async fn retry<T, F>(&self, attempts: u32, operation: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut backoff = Backoff::new(&self.shared);
        for _ in 1..attempts {
            match self.shared.with_store_timeout(operation()).await {
                Ok(done) => return Ok(done),
                Err(error) => tracing::debug!(thread = %self.thread, %error, "a store operation failed; retrying"),
            }
            backoff.pause().await;
        }
        self.shared.with_store_timeout(operation()).await
    }

    /// Sends a command to the machine. A stopped actor drops it.
    pub(crate) fn report(&self, command: Command) {
        self.send(TaskMsg::Done(command));
    }

    /// Sends a message to the actor, which ignores it if the machine was replaced.
    pub(crate) fn send(&self, message: TaskMsg) {
        let _ = self.actor.send_message(Msg::FromTask { generation: self.generation, message });
    }

    /// Stops the conversation with `STORE_UNAVAILABLE`. The next request or the sweep resumes its open turn.
    fn stop_conversation(&self, message: &str) {
        let error = Error::unavailable(Reason::StoreUnavailable, message).retry_after(Duration::from_secs(1));
        self.send(TaskMsg::Stop(error));
    }
}

/// Pauses with jitter that double up to [`PAUSE_MAX`].
pub(crate) struct Backoff {
    shared: Arc<Shared>,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self::after(shared, 0)
    }

    /// Returns the back-off as it is after this number of pauses.
    pub(crate) fn after(shared: &Arc<Shared>, pauses: u32) -> Self {
        let next = PAUSE_MIN.saturating_mul(1 << pauses.min(16)).min(PAUSE_MAX);
        Self { shared: shared.clone(), next }
    }

    pub(crate) async fn pause(&mut self) {
        let jitter = u32::try_from(self.shared.dependencies.environment.random() % 512).unwrap_or(0);
        let jittered = self.next.saturating_mul(512 + jitter) / 1024;
        self.next = self.next.saturating_mul(2).min(PAUSE_MAX);
        tokio::time::sleep(jittered).await;
    }
}
