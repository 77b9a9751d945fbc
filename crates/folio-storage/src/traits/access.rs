//! Members and tokens.

use async_trait::async_trait;
use folio_resources::{Member, MemberWrite};
use folio_types::token::{ListedToken, TokenId, TokenRecord};
use folio_types::{Code, Error, OrgId, Reason, Result, Timestamp, UserId};

/// Maximum number of tokens of an organization that are not revoked.
pub const TOKENS_MAX: usize = 1_000;

/// Maximum number of members of an organization, including removed ones.
pub const MEMBERS_MAX: usize = 10_000;

/// Returns the error for an exceeded bound of an organization.
pub fn full(what: &str, most: usize) -> Error {
    Error::new(Code::ResourceExhausted, Reason::QuotaExceeded, format!("an organization has at most {most} {what}"))
}

/// Members and tokens of organizations.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// Returns a member, removed or not, or none.
    async fn member(&self, org: &OrgId, user: &UserId) -> Result<Option<Member>>;

    /// Returns all members by id, including removed ones.
    async fn members(&self, org: &OrgId) -> Result<Vec<Member>>;

    /// Executes the write if the member and its guard are stored as they were read; returns false otherwise.
    ///
    /// Errors: `QUOTA_EXCEEDED` over [`MEMBERS_MAX`].
    async fn write_member(&self, org: &OrgId, write: MemberWrite) -> Result<bool>;

    /// Stores a token. The caller has checked that its organization exists. Errors: `QUOTA_EXCEEDED` over [`TOKENS_MAX`].
    async fn create_token(&self, token: TokenRecord) -> Result<()>;

    /// Returns the token's record, or none. The only read without an organization: it determines the organization of a
    /// request.
    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>>;

    /// Returns the organization's tokens that are not revoked, oldest first.
    async fn tokens(&self, org: &OrgId) -> Result<Vec<ListedToken>>;

    /// Revokes a token from `at` on; an earlier revocation stays. Returns the token after that, or none if the
    /// organization has no such token.
    async fn revoke_token(&self, org: &OrgId, id: &TokenId, at: Timestamp) -> Result<Option<TokenRecord>>;

    /// Records the use of a token.
    async fn note_use(&self, org: &OrgId, id: &TokenId, at: Timestamp) -> Result<()>;
}
