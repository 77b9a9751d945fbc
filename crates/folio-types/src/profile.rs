//! Profiles, which define agents.

use serde::{Deserialize, Serialize};

/// Name of the default profile.
pub const DOCUMENT_PROFILE: &str = "document";

/// Number of documents of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentCount {
    /// Minimum.
    pub min: usize,
    /// Maximum.
    pub max: usize,
}

/// An agent: instructions, tools, limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Name in requests.
    pub name: &'static str,
    /// Number of documents of a thread.
    pub documents: DocumentCount,
    /// Instructions in the system message.
    pub instructions: &'static str,
    /// Names of the tools.
    pub tools: &'static [&'static str],
    /// Maximum model calls of a turn.
    pub rounds_max: u32,
}
