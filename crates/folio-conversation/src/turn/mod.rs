//! The durable turn as a pure state machine: commands in, effects out.
//!
//! No I/O, no clock, no runtime: the time is an argument, and every input is a [`Command`]. The actor is a thin shell
//! that performs each [`Effect`] in order and reports its result. The machine decides which calls need approval, which
//! calls run, when entries are written, and the resulting history.
//!
//! A machine belongs to one thread and one start of its actor. It is created from the stored header and the folded
//! journal. Its first append takes over the thread with a new epoch. If the store refuses an append, another node owns
//! the thread: the machine requests a reload and is unusable afterwards.

mod append;
mod bounds;
mod cancel;
mod command;
mod decide;
mod direct_call;
mod effect;
mod end;
mod expire;
mod group;
mod machine;
mod model;
mod node;
mod progress;
mod references;
mod resume;
mod start;
mod summary;
mod work;

pub(crate) use append::OPEN_TURN_ROW_HOURS;
pub use command::{
    CallPlan, CheckedCall, Command, Decide, Delta, PlanFailure, PlannedTask, Reply, RequestedDecision, Start,
    StartFailure, Ticket, ToolOutcome, ToolResult,
};
pub use effect::{Answer, Effect, GroupRun, ModelCall, Patience, ToolRun};
pub use end::is_open_row_over;
pub use machine::{DEFERRED_MAX, Machine};
pub(crate) use model::out_of_time;

#[cfg(test)]
mod tests;
