//! Child turns: their threads and messages, and the calls to the nodes that own them.

mod child;
mod peer;
mod plan;

pub(crate) use child::{ChildPlan, Parent, restrict, task_request};
pub(crate) use peer::TurnPeer;
pub(crate) use plan::planned_tasks;
