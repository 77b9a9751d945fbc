//! The tools of the agents: a trait, a registry, and one file per group of tools.
//!
//! A tool that reads is its arguments as a type and one function (`call::ReadCall`). A tool that writes is two
//! (`call::WriteCall`): `plan` resolves what the call is about to change (names to ids, the version that it expects)
//! before the intent is journaled, and `change` says what the one deciding write does; the write itself, with its op
//! row, and what is done with a call that ran before, are the same for all. Nothing a model writes can reach another
//! organization: every store call takes the organization of the principal.
//!
//! [`rules`] and [`path`] are shared with the services, and so is [`extraction`]. [`policy`] judges calls by the organization's rules.

mod arguments;
mod call;
mod decide;
mod document_text;
mod documents;
pub mod extraction;
mod help;
mod models;
mod output;
pub mod path;
pub mod policy;
mod profiles;
mod prompts;
mod registry;
pub mod rules;
mod schemas;
mod spelling;
mod subject;
mod tags;
mod tool;

pub use registry::{CheckedCall, ProfileTools, Registry};
pub use tool::*;
