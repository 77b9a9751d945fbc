//! Extractions: the engine that runs a prompt over a document, shared by the tool and the service, and the tools.

mod edit;
mod engine;
mod fields;
mod message;
mod metered;
mod result;
mod run_tool;

pub use edit::{check_replacement, edited};
pub use engine::{Extracted, Request, run};
pub use metered::complete;

use crate::tool::Tool;

/// The tools of this group.
pub(crate) fn tools() -> Vec<Tool> {
    vec![run_tool::tool(), result::tool(), fields::tool()]
}
