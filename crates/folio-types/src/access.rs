//! Principals, roles, scopes, organizations and members.

use serde::{Deserialize, Serialize};

use crate::ids::{OrgId, UserId};
use crate::policy::Policy;
use crate::quota::OwnQuotas;

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
    /// Every scope.
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

    /// Parses a scope.
    ///
    /// # Errors
    /// `INVALID_FIELD` with the existing names.
    pub fn parse(field: &str, name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::invalid_field(field, format!("expected one of {names}"))
        })
    }
}

/// Authenticated caller. Derived from the token and attached to every call; a request cannot set it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// Organization (tenant) of the caller.
    pub org: OrgId,
    /// User on whose behalf the call is made.
    pub user: UserId,
    /// Role of the user in the organization.
    pub role: Role,
}

/// A stored organization.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Organization {
    /// Id of the organization.
    pub id: OrgId,
    /// Display name.
    pub name: String,
    /// Time of creation.
    pub created_at: jiff::Timestamp,
    /// Version, incremented by each change. 0: never changed.
    #[serde(default, skip_serializing_if = "crate::access::is_zero")]
    pub version: u64,
    /// Approval policy.
    #[serde(default, skip_serializing_if = "Policy::is_empty")]
    pub policy: Policy,
    /// Seconds that a pause waits for approvals. None: the default of the installation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_ttl_seconds: Option<u32>,
    /// Days without activity after which a thread is deleted. None: threads are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_retention_days: Option<u32>,
    /// Limits that differ from the defaults.
    #[serde(default, skip_serializing_if = "OwnQuotas::is_empty")]
    pub quotas: OwnQuotas,
    /// Time of deletion. A deleted organization keeps only this and its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_at: Option<jiff::Timestamp>,
}

impl Organization {
    /// Creates an organization with default settings.
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

    /// Returns the tombstone of the organization.
    #[must_use]
    pub fn tombstone(&self, at: jiff::Timestamp) -> Self {
        let version = self.version.saturating_add(1);
        Self { version, deleted_at: Some(at), ..Self::new(self.id.clone(), "", self.created_at) }
    }

    /// Returns the organization unless it is deleted.
    pub fn live(self) -> Option<Self> {
        self.deleted_at.is_none().then_some(self)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(version: &u64) -> bool {
    *version == 0
}

/// A member of an organization. Its tokens never permit more than its role.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Id of the user.
    pub user: UserId,
    /// Display name, such as an e-mail address.
    pub name: String,
    /// Role of the user, which bounds the roles of its tokens.
    pub role: Role,
    /// Time at which the member was added.
    pub created_at: jiff::Timestamp,
    /// Time of removal. Tokens of a removed member are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<jiff::Timestamp>,
}
