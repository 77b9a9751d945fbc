//! Conversions of organizations, members, users, tokens, and enums of administration.

use folio_resources::audit::AuditKind;
use folio_resources::{Member, Organization, TokenRecord, User};
use folio_types::access::{Role, Scope};
use folio_types::models::{ModelKind, OutputLimitField};
use folio_types::{Etag, IngestionMode};

use super::time;
use crate::v1;

same_variants!(Role = v1::Role of "role": Viewer, Member, Admin);

same_variants!(AuditKind = v1::AuditKind of "kind": CallApproved, CallEdited, CallRejected, CallAllowed, CallDenied,
    CallEffect, ChangeRequested, ChangeApplied, ChangeFailed);

same_variants!(OutputLimitField = v1::OutputLimitField of "output_limit_field": MaxTokens, MaxCompletionTokens, None);

same_variants!(ModelKind = v1::ModelKind of "kind": Chat, Embedding, Rerank);

same_variants!(Scope = v1::Scope of "scope": Conversations, Documents, Definitions, Extractions, Usage, Administration);

same_variants!(IngestionMode = v1::IngestionMode of "mode": Off, Index, Fast, Agentic);

impl v1::IngestionMode {
    /// None: unspecified.
    pub fn specified(self) -> Option<IngestionMode> {
        self.try_into().ok()
    }
}

impl v1::Role {
    /// None: unspecified.
    pub fn specified(self) -> Option<Role> {
        self.try_into().ok()
    }
}

impl v1::Scope {
    /// None: unspecified.
    pub fn specified(self) -> Option<Scope> {
        self.try_into().ok()
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
            tag_runs_disabled: organization.tag_runs.disabled,
            tag_batch_documents: organization.tag_runs.batch_documents,
            auto_create: organization.auto_create,
            ingestion: v1::IngestionMode::from(organization.ingestion).into(),
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

impl From<&User> for v1::User {
    fn from(user: &User) -> Self {
        Self {
            user_id: user.id.to_string(),
            email: user.email.clone(),
            name: user.name.clone(),
            platform: user.platform,
            create_time: Some(time::to_proto(user.created_at)),
            update_time: Some(time::to_proto(user.updated_at)),
            etag: Etag::new(user.version).to_string(),
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
            created_by_user_id: token.created_by.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}
