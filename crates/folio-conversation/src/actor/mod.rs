//! The actor of one thread: a thin shell around the turn machine. It gives requests to the machine and performs the
//! resulting effects in order. Slow work runs in tasks of its own and returns as a message, so that the actor can
//! handle the next message.

mod answers;
mod chat;
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
use crate::supervisor::{Activity, Exit, Key};
pub(crate) use message::{Deltas, Msg, PreparedChat, Reply, Request};
use state::State;

/// The actor of one thread.
pub(crate) struct ConversationActor;

/// Arguments of a conversation actor. The thread is loaded at the first message, so that starting is cheap.
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
        // Boxed, so that an idle actor does not hold memory for handling a message.
        let span = state.span();
        let exit = Box::pin(state.handle(message).instrument(span)).await;
        state.show();
        let exit = exit.or_else(|| state.release_if_draining());
        match exit {
            Some(Exit::Broken) => return Err("an invariant of the conversation broke".into()),
            Some(exit @ (Exit::Idle | Exit::ThreadDeleted | Exit::Stopped | Exit::Elsewhere | Exit::Lost)) => {
                state.leave(exit);
                myself.stop(Some(exit.as_str().to_owned()));
            }
            None => {}
        }
        Ok(())
    }
}
