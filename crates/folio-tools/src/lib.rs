//! The tools of the agents: a trait, a registry, and one file per group of tools.
//!
//! A read-only tool is one function. A write tool is two: `plan` resolves what the call is about to change (names to
//! ids, the version that it expects) before the intent is journaled, and `run` makes the one deciding write with its op
//! row. Nothing a model writes can reach another organization: every store call takes the organization of the
//! principal.
//!
//! [`rules`] and [`path`] are shared with the services, and so is [`extraction`].

mod arguments;
mod decide;
mod document_text;
mod documents;
pub mod extraction;
mod help;
mod models;
pub mod path;
mod profiles;
mod prompts;
mod registry;
pub mod rules;
mod schemas;
mod tags;
mod tool;

pub use registry::{CheckedCall, ProfileTools, Registry};
pub use tool::*;
