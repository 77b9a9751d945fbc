//! The actor of one thread: a thin shell around the turn machine. It gives requests to the machine, performs the effects
//! that come out, in order, and is free for the next message at once: whatever takes long runs in a task of its own and
//! comes back as a message.

mod answers;
mod chat;
mod effects;
mod load;
mod message;
mod ownership;
mod queue;
mod requests;
mod spans;
mod state;
mod tell;
mod threads;

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tracing::Instrument as _;

use crate::shared::Shared;
use crate::supervisor::{Exit, Key, Vitals};
pub(crate) use message::{ChatAsk, Msg, Pieces, Reply, Request};
use state::State;

/// The actor of one thread.
pub(crate) struct ConversationActor;

/// What a conversation starts with. Its thread is loaded when the first message comes, so that starting costs nothing.
pub(crate) struct Start {
    pub(crate) shared: Arc<Shared>,
    pub(crate) key: Key,
    pub(crate) vitals: Arc<Vitals>,
}

impl Actor for ConversationActor {
    type Msg = Msg;
    type State = State;
    type Arguments = Start;

    async fn pre_start(&self, myself: ActorRef<Msg>, start: Start) -> Result<State, ActorProcessingErr> {
        Ok(State::new(myself, start))
    }

    async fn handle(&self, myself: ActorRef<Msg>, message: Msg, state: &mut State) -> Result<(), ActorProcessingErr> {
        // Boxed: an actor at rest keeps no room for what a message may need.
        let span = state.span();
        let exit = Box::pin(state.take(message).instrument(span)).await;
        state.show();
        let exit = exit.or_else(|| state.hand_back());
        match exit {
            Some(Exit::Broken) => return Err("an invariant of the conversation broke".into()),
            Some(exit @ (Exit::Idle | Exit::ThreadGone | Exit::Stopped | Exit::Elsewhere | Exit::Lost)) => {
                state.leave(exit);
                myself.stop(Some(exit.as_str().to_owned()));
            }
            None => {}
        }
        Ok(())
    }
}
