//! Event streams of turns.

mod buffer;
mod follow;

pub(crate) use buffer::TurnBuffer;
pub(crate) use follow::{Rejoin, StreamStart, follow, stopped};
