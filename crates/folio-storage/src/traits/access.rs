//! Members and tokens.

use async_trait::async_trait;
use folio_resources::{Member, MemberWrite};
use folio_types::token::{ListedToken, TokenId, TokenRecord};
use folio_types::{Code, Error, OrgId, Reason, Result, Timestamp, UserId};

/// Tokens of an organization that are not revoked, at most.
pub const TOKENS_MAX: usize = 1_000;

/// Members of an organization, removed ones included, at most.
pub const MEMBERS_MAX: usize = 10_000;

/// Over a bound of an organization.
pub fn full(what: &str, most: usize) -> Error {
    Error::new(Code::ResourceExhausted, Reason::QuotaExceeded, format!("an organization has at most {most} {what}"))
}

/// Members and tokens of organizations.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// A member, removed or not, or none.
    async fn member(&self, org: &OrgId, user: &UserId) -> Result<Option<Member>>;

    /// All members, removed ones too, by id.
    async fn members(&self, org: &OrgId) -> Result<Vec<Member>>;

    /// Executes the write if the member and its guard are stored as they were read; returns false otherwise.
    ///
    /// Errors: `QUOTA_EXCEEDED` over [`MEMBERS_MAX`].
    async fn write_member(&self, org: &OrgId, write: MemberWrite) -> Result<bool>;

    /// Stores a token. The caller has checked that its organization exists. Errors: `QUOTA_EXCEEDED` over [`TOKENS_MAX`].
    async fn create_token(&self, token: TokenRecord) -> Result<()>;

    /// The token's record, or none. The only read that is not below an organization: it is how one is found.
    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>>;

    /// The organization's tokens that are not revoked, oldest first.
    async fn tokens(&self, org: &OrgId) -> Result<Vec<ListedToken>>;

    /// Revokes a token from `at` on; one that is revoked stays as it is. Gives it as it is then, or none where the
    /// organization has no such token.
    async fn revoke_token(&self, org: &OrgId, id: &TokenId, at: Timestamp) -> Result<Option<TokenRecord>>;

    /// Notes that a token was used.
    async fn note_use(&self, org: &OrgId, id: &TokenId, at: Timestamp) -> Result<()>;
}
