//! Profiles, which define agents.

use serde::{Deserialize, Serialize};

/// Name of the default profile.
pub const DOCUMENT_PROFILE: &str = "document";

/// Number of documents of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentCount {
    pub min: usize,
    pub max: usize,
}

/// An agent: instructions, tools, limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub name: &'static str,
    pub documents: DocumentCount,
    /// Instructions in the system message.
    pub instructions: &'static str,
    /// Guide in the system message while the thread has no schema. Empty: none.
    pub guide: &'static str,
    /// Every tool of the profile.
    pub tools: &'static [&'static str],
    /// The tools among `tools` that a model receives only after a call of `find_tools`, or of the tool, in the same turn.
    /// A model may call them at any time.
    pub tools_on_request: &'static [&'static str],
    /// Maximum model calls of a turn.
    pub rounds_max: u32,
}
