//! The actor of one thread: a thin shell around the turn machine. It passes requests to the machine and performs the
//! resulting effects in order. Slow work runs in separate tasks, whose results return as messages, so that the actor
//! can handle the next message meanwhile.

mod answers;
mod chat;
mod children;
mod effects;
mod load;
mod message;
mod ownership;
mod publication;
mod queue;
mod requests;
mod spans;
mod state;
mod threads;

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tracing::Instrument as _;

use crate::shared::Shared;
use crate::supervisor::{Activity, Key, StopReason};
pub(crate) use message::{Deltas, Msg, PreparedChat, Reply, Request, TaskMsg};
use state::State;

pub(crate) struct ConversationActor;

/// Arguments of a new actor, which loads the thread at the first message, so that its start is cheap.
pub(crate) struct Start {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: Key,
    pub(crate) activity: Arc<Activity>,
}

impl Actor for ConversationActor {
    type Msg = Msg;
    type State = State;
    type Arguments = Start;

    async fn pre_start(&self, myself: ActorRef<Msg>, start: Start) -> Result<State, ActorProcessingErr> {
        Ok(State::new(myself, start))
    }

    async fn handle(&self, myself: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        // Boxed, so that an idle actor does not retain the memory of the future.
        let span = state.span();
        let reason = Box::pin(state.handle(message).instrument(span)).await;
        state.update_activity();
        let reason = reason.or_else(|| state.release_if_draining());
        match reason {
            Some(StopReason::Failed) => return Err("an invariant of the conversation is violated".into()),
            Some(reason) => {
                state.stop(reason);
                myself.stop(Some(reason.as_str().to_owned()));
            }
            None => {}
        }
        Ok(())
    }
}
