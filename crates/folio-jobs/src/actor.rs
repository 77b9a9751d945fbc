//! The actor of a running job. The actor handles one message, which runs the job until the job ends, waits or is handed
//! over to another node.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::runner::{self, Stop};
use crate::shared::{Key, Shared};

pub(crate) struct JobActor;

/// The arguments and the state of the actor.
pub(crate) struct Start {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: Key,
}

/// The only message of the actor, which the actor sends to itself at its start.
pub(crate) struct Run;

impl Actor for JobActor {
    type Msg = Run;
    type State = Start;
    type Arguments = Start;

    async fn pre_start(&self, myself: ActorRef<Run>, start: Start) -> Result<Start, ActorProcessingErr> {
        myself.send_message(Run).map_err(|_| "the mailbox of a new actor is closed")?;
        Ok(start)
    }

    async fn handle(&self, myself: ActorRef<Run>, Run: Run, state: &mut Start) -> Result<(), ActorProcessingErr> {
        let shared: &Shared = &state.shared;
        let key = &state.key;
        let job = async {
            if !shared.take_slot(key).await {
                return;
            }
            match runner::run(shared, key).await {
                Ok(()) => shared.mark_done(key),
                Err(Stop::Replaced) => tracing::debug!(job = %key.1, "another process changed the job"),
                Err(Stop::Failed(error)) => tracing::warn!(%error, job = %key.1, "the job is interrupted"),
            }
            shared.sync_slot(key, false).await;
        };
        let _ = shared.stopped.run_until_cancelled(Box::pin(job)).await;
        myself.stop(None);
        Ok(())
    }
}
