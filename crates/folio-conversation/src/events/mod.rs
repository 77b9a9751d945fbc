//! Event streams of turns: the event buffer of a turn and its readers.

mod buffer;
mod follow;

pub(crate) use buffer::TurnBuffer;
pub(crate) use follow::{Rejoin, StreamStart, follow, stopped};
