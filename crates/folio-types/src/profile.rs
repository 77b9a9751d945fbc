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
    pub tools: &'static [&'static str],
    /// Maximum model calls of a turn.
    pub rounds_max: u32,
}
