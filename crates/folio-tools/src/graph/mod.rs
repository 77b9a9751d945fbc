//! The rules of turns with a graph that need the results of tools: checks of answers, and the memory that a turn leaves. Pure
//! functions of the record of a turn.

mod answer;
mod retrieved;
mod state;

pub use answer::checked_answer;
pub use state::{AgentState, NumericResult, state_after};
