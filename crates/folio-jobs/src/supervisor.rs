//! The supervisor of a node's jobs: starts an actor for each job and removes it when it ends. A job whose actor failed is
//! found by the next sweep, because its header names this incarnation and no actor runs it.

use std::collections::HashMap;
use std::sync::Arc;

use folio_history::job::JobQueue;
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::actor::{JobActor, Start};
use crate::shared::{Key, Shared};
use crate::{hints, sweep};

pub(crate) enum SupervisorMsg {
    /// Start a job of a queue unless it has an actor.
    Start(JobQueue, Key),
}

pub(crate) struct Supervisor;

pub(crate) struct SupervisorState {
    shared: Arc<Shared>,
    /// Keys by actor, to identify ended actors.
    keys: HashMap<ActorId, Key>,
}

impl Actor for Supervisor {
    type Msg = SupervisorMsg;
    type State = SupervisorState;
    type Arguments = Arc<Shared>;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        shared: Arc<Shared>,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        hints::until_stopped(&shared, myself.clone());
        sweep::until_stopped(&shared, myself);
        Ok(SupervisorState { shared, keys: HashMap::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        SupervisorMsg::Start(queue, key): SupervisorMsg,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let shared = &state.shared;
        if shared.draining.is_cancelled() || shared.is_running(&key) || shared.free(&key.0, queue) == 0 {
            return Ok(());
        }
        let start = Start { shared: Arc::clone(shared), key: key.clone() };
        shared.insert(key.clone(), queue);
        match Actor::spawn_linked(None, JobActor, start, myself.get_cell()).await {
            Ok((actor, _joined)) => drop(state.keys.insert(actor.get_id(), key)),
            Err(error) => {
                tracing::error!(%error, job = %key.1, "cannot start the actor of a job");
                shared.remove(&key);
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        let ended = match event {
            SupervisionEvent::ActorTerminated(cell, _, _) => cell.get_id(),
            SupervisionEvent::ActorFailed(cell, error) => {
                tracing::error!(%error, "the actor of a job failed; the next sweep starts the job again");
                cell.get_id()
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        if let Some(key) = state.keys.remove(&ended) {
            state.shared.remove(&key);
        }
        Ok(())
    }
}
