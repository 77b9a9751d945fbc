//! Automatic creation: an agent makes a schema, a prompt and an extraction for an uploaded document without a person, and the
//! result is a proposal. A job drives the turn of the agent; the agent of the profile `auto_create` has the tools of
//! conversations about a document, within the bounds of [`check_plan`].

mod guard;
mod options;
mod removal;
mod run;
mod similar;

pub use guard::{REFINEMENTS_MAX, check_plan};
pub use options::Options;
pub use removal::{created_by_run, remove_unused};
pub use run::{AutoCreateRun, AutoCreateStart, discard_run, end_auto_create, open_run, start_auto_create};
pub use similar::propose_similar;
