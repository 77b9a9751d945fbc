//! The tools of the agents: a trait, a registry, and one file per group of tools.
//!
//! A read-only tool is one function. A write tool is two: `plan` resolves what the call is about to change (names to
//! ids, the version that it expects) before the intent is journaled, and `run` makes the one deciding write with its op
//! row. Nothing a model writes can reach another organization: every store call takes the organization of the
//! principal.

mod tool;

pub use tool::*;
