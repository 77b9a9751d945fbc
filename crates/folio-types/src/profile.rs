//! Profiles: which agent a thread talks to.

use serde::{Deserialize, Serialize};

/// The profile of a chat that names none.
pub const DOCUMENT_PROFILE: &str = "document";

/// How many documents a thread of a profile is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentCount {
    /// At least.
    pub min: usize,
    /// At most.
    pub max: usize,
}

/// An agent: its instructions, its tools, its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The name that a request gives.
    pub name: &'static str,
    /// How many documents.
    pub documents: DocumentCount,
    /// The instructions in the system message.
    pub instructions: &'static str,
    /// The names of its tools.
    pub tools: &'static [&'static str],
    /// Model calls of one turn.
    pub rounds_max: u32,
}
