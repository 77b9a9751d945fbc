//! Who calls.

use serde::{Deserialize, Serialize};

use crate::ids::{OrgId, UserId};

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Viewer,
    /// Also chats, approves and edits.
    Member,
    /// Also tokens, providers, credits and members.
    Admin,
}

/// Who calls: taken from the token, carried by every call, never from the request.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// The tenant.
    pub org: OrgId,
    /// The user.
    pub user: UserId,
    /// What the user may do.
    pub role: Role,
}

/// A tenant as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// Its id.
    pub id: OrgId,
    /// Its name, for people.
    pub name: String,
    /// When it was made.
    pub created_at: jiff::Timestamp,
}
