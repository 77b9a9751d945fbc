//! Conversions of organizations, members and tokens.

use folio_resources::{Member, Organization, TokenRecord};
use folio_types::Etag;
use folio_types::access::{Role, Scope};

use super::time;
use crate::v1;

impl From<Role> for v1::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Viewer => Self::Viewer,
            Role::Member => Self::Member,
            Role::Admin => Self::Admin,
        }
    }
}

impl v1::Role {
    /// None: unspecified.
    pub fn specified(self) -> Option<Role> {
        match self {
            Self::Unspecified => None,
            Self::Viewer => Some(Role::Viewer),
            Self::Member => Some(Role::Member),
            Self::Admin => Some(Role::Admin),
        }
    }
}

impl From<Scope> for v1::Scope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Conversations => Self::Conversations,
            Scope::Documents => Self::Documents,
            Scope::Definitions => Self::Definitions,
            Scope::Extractions => Self::Extractions,
            Scope::Usage => Self::Usage,
            Scope::Administration => Self::Administration,
        }
    }
}

impl v1::Scope {
    /// None: unspecified.
    pub fn specified(self) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| Self::from(*scope) == self)
    }
}

impl From<&Organization> for v1::Organization {
    fn from(organization: &Organization) -> Self {
        Self {
            organization_id: organization.id.to_string(),
            name: organization.name.clone(),
            create_time: Some(time::to_proto(organization.created_at)),
            etag: Etag::new(organization.version).to_string(),
            thread_retention_days: organization.thread_retention_days.unwrap_or(0),
        }
    }
}

impl From<&Member> for v1::Member {
    fn from(member: &Member) -> Self {
        Self {
            user_id: member.user.to_string(),
            name: member.name.clone(),
            role: v1::Role::from(member.role).into(),
            create_time: Some(time::to_proto(member.created_at)),
        }
    }
}

impl From<&TokenRecord> for v1::Token {
    fn from(token: &TokenRecord) -> Self {
        Self {
            token_id: token.id.to_string(),
            name: token.name.clone(),
            user_id: token.user.to_string(),
            role: v1::Role::from(token.role).into(),
            scopes: token.scopes.iter().map(|scope| v1::Scope::from(*scope).into()).collect(),
            platform: token.platform,
            create_time: Some(time::to_proto(token.created_at)),
            expire_time: token.expires_at.map(time::to_proto),
            last_use_time: None,
        }
    }
}
