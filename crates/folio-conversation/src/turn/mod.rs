//! The durable turn as a pure state machine: commands in, effects out.
//!
//! No I/O, no clock, no runtime: the time is an argument, and everything that the world says comes as a [`Command`]. The
//! actor is a thin shell that performs each [`Effect`] in order and reports what came of it. What needs approval, what may
//! run, what is written when, and what the history looks like afterwards is decided here.
//!
//! A machine belongs to one thread and to one life of its actor. It is made from the stored header and the fold of the
//! journal; the first append that it makes takes the thread over (a new epoch). When the store refuses an append, somebody
//! else owns the thread: the machine asks to be reloaded and is of no use from there on.

mod append;
mod bounds;
mod cancel;
mod command;
mod decide;
mod effect;
mod end;
mod expire;
mod machine;
mod model;
mod resume;
mod start;
mod work;

pub(crate) use append::OPEN_TURN_ROW_HOURS;
pub use command::{
    Asked, CallPlan, CheckedCall, Command, Decide, Delta, Reply, Start, Ticket, ToolOutcome, ToolResult,
};
pub use effect::{Answer, Effect, ModelCall, ToolRun};
pub use end::is_open_row_over;
pub use machine::{DEFERRED_MAX, Machine};
pub(crate) use start::request_taken;
pub use work::READS_AT_ONCE;

#[cfg(test)]
mod tests;
