//! Principals, roles and scopes.

use serde::{Deserialize, Serialize};

use crate::ids::{OrgId, UserId};

use crate::error::{Error, Result};

/// Role of a user in an organization. A higher role includes the lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May read.
    Viewer,
    /// May also chat, approve and edit.
    Member,
    /// May also manage tokens, providers, credit and members.
    Admin,
}

impl Role {
    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }
}

/// Part of the API to which a token can be limited. Calls that every token may make (listing the models) have no scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Threads, turns and approvals.
    Conversations,
    /// Documents and their text.
    Documents,
    /// Schemas, prompts and tags.
    Definitions,
    /// Extractions outside of conversations.
    Extractions,
    /// Balance and usage.
    Usage,
    /// Tokens, members, policies, settings and the audit log.
    Administration,
}

impl Scope {
    pub const ALL: [Self; 6] =
        [Self::Conversations, Self::Documents, Self::Definitions, Self::Extractions, Self::Usage, Self::Administration];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conversations => "conversations",
            Self::Documents => "documents",
            Self::Definitions => "definitions",
            Self::Extractions => "extractions",
            Self::Usage => "usage",
            Self::Administration => "administration",
        }
    }

    /// Error: `INVALID_FIELD` with the existing names.
    pub fn parse(field: &str, name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid_field(field, format!("expected one of {names}"))
        })
    }
}

/// Authenticated caller. It is derived from the token and attached to every call; a request cannot set it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    pub org: OrgId,
    /// User on whose behalf the call is made.
    pub user: UserId,
    pub role: Role,
}
