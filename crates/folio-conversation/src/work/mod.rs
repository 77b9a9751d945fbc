//! What takes long: each in a task of its own, owned by the node's tracker and stopped by its conversation's token. What
//! came of it goes back to the actor as a command of the machine.

mod audit;
mod model;
mod model_stream;
mod recovery;
mod spent;
mod store;
mod tools;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use folio_types::{OrgId, ThreadId};
use ractor::ActorRef;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use crate::actor::Msg;
use crate::shared::Shared;
use crate::turn::Command;

pub(crate) use model::ModelWork;
pub(crate) use spent::Spent;
pub(crate) use tools::ToolWork;

/// First pause before something is tried again.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// Longest pause before something is tried again.
const PAUSE_LONGEST: Duration = Duration::from_secs(2);

/// What every task of a conversation has.
#[derive(Clone)]
pub(crate) struct Work {
    pub(crate) shared: Arc<Shared>,
    pub(crate) org: OrgId,
    pub(crate) thread: ThreadId,
    /// Where results go.
    pub(crate) actor: ActorRef<Msg>,
    /// Which machine of the actor asked; answers to an older one are dropped.
    pub(crate) generation: u64,
    /// Stops the task.
    pub(crate) token: CancellationToken,
    /// What of the turn it belongs to.
    pub(crate) span: Span,
}

impl Work {
    /// Runs a task until it is done or stopped.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let token = self.token.clone();
        self.spawn_whole(async move {
            tokio::select! {
                biased;
                () = token.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Runs a task that looks at the token itself, because it has something to put in order when it is stopped.
    pub(crate) fn spawn_whole(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.shared.tracker.spawn(task.instrument(self.span.clone()));
    }

    /// A failpoint; a task that is stopped there goes on to put things in order.
    pub(crate) async fn point(&self, stage: &str, moment: &str) {
        tokio::select! {
            biased;
            () = self.token.cancelled() => {}
            () = self.shared.failpoints().hit(stage, moment) => {}
        }
    }

    /// Gives the machine a command. An actor that is gone needs none.
    pub(crate) fn report(&self, command: Command) {
        let _ = self.actor.send_message(Msg::Did { generation: self.generation, command });
    }
}

/// Pauses that grow, with jitter.
pub(crate) struct Backoff {
    shared: Arc<Shared>,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self::after(shared, 0)
    }

    /// Those that follow after so many.
    pub(crate) fn after(shared: &Arc<Shared>, pauses: u32) -> Self {
        let next = PAUSE_FIRST.saturating_mul(1 << pauses.min(16)).min(PAUSE_LONGEST);
        Self { shared: shared.clone(), next }
    }

    pub(crate) async fn pause(&mut self) {
        let share = u32::try_from(self.shared.environment().random() % 512).unwrap_or(0);
        let jittered = self.next.saturating_mul(512 + share) / 1024;
        self.next = self.next.saturating_mul(2).min(PAUSE_LONGEST);
        tokio::time::sleep(jittered).await;
    }
}
