//! Events on their way to those who follow a turn.

mod buffer;
mod follow;

pub(crate) use buffer::TurnBuffer;
pub(crate) use follow::{Following, Refollow, follow, stopped};
