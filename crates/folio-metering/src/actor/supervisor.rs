//! The supervisor of the meters: starts one for an organization, and forgets one that ended or broke. What a broken one
//! held is in the stores, where whoever finds it closes it; the next call gets a new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_types::{Error, OrgId, Result};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;

use super::{MeterActor, MeterRef, Msg, Shared};

/// The meters that run.
#[derive(Clone, Default)]
pub(crate) struct Meters(Arc<Mutex<HashMap<OrgId, ActorRef<Msg>>>>);

impl Meters {
    fn table(&self) -> MutexGuard<'_, HashMap<OrgId, ActorRef<Msg>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The meter of an organization, where one runs.
    pub(crate) fn find(&self, org: &OrgId) -> Option<MeterRef> {
        self.table().get(org).cloned().map(MeterRef)
    }

    /// Has all of them give back what they hold, and end.
    pub(crate) async fn leave(&self) {
        let actors: Vec<_> = self.table().values().cloned().collect();
        for actor in actors {
            let (left, done) = oneshot::channel();
            if actor.send_message(Msg::Leave(left)).is_ok() {
                // One that broke meanwhile gives nothing back: what it held is closed when its time is over.
                let _ = done.await;
            }
        }
    }

    fn forget(&self, id: ActorId) {
        self.table().retain(|_, actor| actor.get_id() != id);
    }
}

/// What the supervisor is asked.
pub(crate) enum SupervisorMsg {
    /// The meter of an organization, started where there is none.
    Find(OrgId, oneshot::Sender<Result<MeterRef>>),
}

/// The supervisor.
pub(crate) struct Supervisor;

impl Actor for Supervisor {
    type Msg = SupervisorMsg;
    type State = (Arc<Shared>, Meters);
    type Arguments = (Arc<Shared>, Meters);

    async fn pre_start(
        &self,
        _myself: ActorRef<SupervisorMsg>,
        arguments: Self::Arguments,
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(arguments)
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        SupervisorMsg::Find(org, reply): SupervisorMsg,
        (shared, meters): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(meter) = meters.find(&org) {
            let _ = reply.send(Ok(meter));
            return Ok(());
        }
        let arguments = (Arc::clone(shared), org.clone());
        let started = match Actor::spawn_linked(None, MeterActor, arguments, myself.get_cell()).await {
            Ok((actor, _joined)) => {
                meters.table().insert(org, actor.clone());
                Ok(MeterRef(actor))
            }
            Err(error) => Err(Error::internal(format!("a meter cannot be started: {error}"))),
        };
        let _ = reply.send(started);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        (_, meters): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorTerminated(cell, _, _) => meters.forget(cell.get_id()),
            SupervisionEvent::ActorFailed(cell, error) => {
                tracing::error!(%error, "a meter broke; what it held is closed when its time is over");
                meters.forget(cell.get_id());
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}
