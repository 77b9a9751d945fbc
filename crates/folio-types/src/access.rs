//! Who calls.

use serde::{Deserialize, Serialize};

use crate::ids::{OrgId, UserId};
use crate::policy::Policy;
use crate::quota::OwnQuotas;

use crate::error::{Error, Result};

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

impl Role {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Member => "member",
            Self::Admin => "admin",
        }
    }
}

/// A part of the API that a token may be limited to. What every token may do beside its scopes (asking for the models) has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Threads, turns and approvals.
    Conversations,
    /// Documents and their text.
    Documents,
    /// Schemas, prompts and tags.
    Definitions,
    /// Extractions outside conversations.
    Extractions,
    /// Balance and usage.
    Usage,
    /// Tokens, members, policies, settings and the audit log.
    Administration,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Conversations, Self::Documents, Self::Definitions, Self::Extractions, Self::Usage, Self::Administration];

    /// Its name.
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

    /// The scope of a name.
    ///
    /// # Errors
    /// `INVALID_FIELD` with the names that there are.
    pub fn parse(field: &str, name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid_field(field, format!("there are {names}"))
        })
    }
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
    /// Grows by one with each change; 0: never changed.
    #[serde(default, skip_serializing_if = "crate::access::is_zero")]
    pub version: u64,
    /// What waits for approval, and whose.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
    /// Seconds that a pause waits; none: as long as the installation says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_ttl_seconds: Option<u32>,
    /// Days after which a thread goes that nothing happened in; none: threads stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_retention_days: Option<u32>,
    /// What it may have at once, where that is not as for all.
    #[serde(default, skip_serializing_if = "OwnQuotas::is_empty")]
    pub quotas: OwnQuotas,
    /// Since when it is deleted: then this and its id are all that is left of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<jiff::Timestamp>,
}

impl Organization {
    /// A new one, with nothing set.
    pub fn new(id: OrgId, name: &str, created_at: jiff::Timestamp) -> Self {
        Self {
            id,
            name: name.to_owned(),
            created_at,
            version: 0,
            policy: Policy::default(),
            approval_ttl_seconds: None,
            thread_retention_days: None,
            quotas: OwnQuotas::default(),
            deleted_at: None,
        }
    }

    /// What is left of it once it is deleted: its tombstone.
    #[must_use]
    pub fn tombstone(&self, at: jiff::Timestamp) -> Self {
        let version = self.version.saturating_add(1);
        Self { version, deleted_at: Some(at), ..Self::new(self.id.clone(), "", self.created_at) }
    }

    /// It, unless it is deleted.
    pub fn live(self) -> Option<Self> {
        self.deleted_at.is_none().then_some(self)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde asks for")]
fn is_zero(version: &u64) -> bool {
    *version == 0
}

/// A user of an organization, as its admins manage it. What its tokens allow is never more than its role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The user.
    pub user: UserId,
    /// A name for people: an e-mail address, say.
    pub name: String,
    /// The most that the user may do.
    pub role: Role,
    /// When it was added.
    pub created_at: jiff::Timestamp,
    /// Since when it is no member: its tokens are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<jiff::Timestamp>,
}
