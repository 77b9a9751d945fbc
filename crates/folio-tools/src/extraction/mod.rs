//! Extractions: the engine that runs a prompt on a document (used by the tool and by the API), and the tools.

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

pub(crate) fn tools() -> Vec<Tool> {
    vec![run_tool::tool(), result::tool(), fields::tool()]
}
