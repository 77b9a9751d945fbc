//! The supervisor of the meter actors: starts one per organization and removes stopped or failed ones. Any process
//! closes the blocks of a failed actor after their expiry. The next call starts a new actor.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use folio_types::{Error, OrgId, Result};
use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, SupervisionEvent};
use tokio::sync::oneshot;

use super::{MeterActor, MeterRef, Msg, Shared};

/// The running meter actors.
#[derive(Clone, Default)]
pub(crate) struct Meters(Arc<Mutex<HashMap<OrgId, ActorRef<Msg>>>>);

impl Meters {
    fn table(&self) -> MutexGuard<'_, HashMap<OrgId, ActorRef<Msg>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the meter of an organization, unless its actor is `ended`.
    pub(crate) fn find(&self, org: &OrgId, ended: Option<ActorId>) -> Option<MeterRef> {
        self.table().get(org).filter(|actor| Some(actor.get_id()) != ended).cloned().map(MeterRef)
    }

    /// Stops every actor. Each actor first starts the return of its credit.
    pub(crate) async fn leave(&self) {
        let actors: Vec<_> = self.table().values().cloned().collect();
        for actor in actors {
            let (reply, done) = oneshot::channel();
            if actor.send_message(Msg::Leave(reply)).is_ok() {
                // A failed actor sends no reply; its blocks are closed after expiry.
                let _ = done.await;
            }
        }
    }

    fn remove(&self, id: ActorId) {
        self.table().retain(|_, actor| actor.get_id() != id);
    }
}

pub(crate) enum SupervisorMsg {
    /// Requests the meter of an organization. Starts one if there is none, or if the current one is the given one,
    /// which has ended.
    Find(OrgId, Option<ActorId>, oneshot::Sender<Result<MeterRef>>),
}

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
        SupervisorMsg::Find(org, ended, reply): SupervisorMsg,
        (shared, meters): &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(meter) = meters.find(&org, ended) {
            let _ = reply.send(Ok(meter));
            return Ok(());
        }
        let arguments = (Arc::clone(shared), org.clone());
        let started = match Actor::spawn_linked(None, MeterActor, arguments, myself.get_cell()).await {
            Ok((actor, _joined)) => {
                meters.table().insert(org, actor.clone());
                Ok(MeterRef(actor))
            }
            Err(error) => Err(Error::internal(format!("cannot start a meter: {error}"))),
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
            SupervisionEvent::ActorTerminated(cell, _, _) => meters.remove(cell.get_id()),
            SupervisionEvent::ActorFailed(cell, error) => {
                tracing::error!(%error, "meter failed; its blocks are closed after expiry");
                meters.remove(cell.get_id());
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use folio_storage_embedded::{EmbeddedStore, Options};
    use folio_types::System;
    use tokio_util::sync::CancellationToken;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::Escrow;

    #[tokio::test]
    async fn a_stopped_meter_is_replaced_even_if_the_table_contains_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(Options::at(folder.path())).unwrap();
        let stores = store.stores();
        let (environment, meters) = (Arc::new(System), Meters::default());
        let shared = Arc::new(Shared {
            escrow: Escrow::new(stores.credit.clone(), stores.usage.clone(), environment.clone()),
            environment,
            options: crate::Options::default(),
            tasks: TaskTracker::new(),
            token: CancellationToken::new(),
        });
        let (supervisor, joined) = Actor::spawn(None, Supervisor, (shared.clone(), meters.clone())).await.unwrap();
        let org = OrgId::derive(&["replaced"]);
        let find = async |ended| {
            let (reply, answer) = oneshot::channel();
            supervisor.send_message(SupervisorMsg::Find(org.clone(), ended, reply)).unwrap();
            answer.await.unwrap().unwrap()
        };
        let first = find(None).await;
        first.0.stop_and_wait(None, None).await.unwrap();
        folio_testkit::wait_for("the end of the actor", Duration::from_secs(10), async || {
            meters.find(&org, None).is_none().then_some(())
        })
        .await;
        // The termination event is not processed yet:
        meters.table().insert(org.clone(), first.0.clone());
        assert!(first.request_block(1).await.is_none());
        let second = find(Some(first.id())).await;
        assert!(second.request_block(1).await.is_some(), "the new meter runs");
        assert_eq!(find(None).await.id(), second.id());
        supervisor.stop(None);
        shared.token.cancel();
        joined.await.unwrap();
    }
}
