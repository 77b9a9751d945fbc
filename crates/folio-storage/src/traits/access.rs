//! Members, and the last uses of tokens.

use std::fmt::Display;

use async_trait::async_trait;
use folio_resources::{Member, MemberWrite};
use folio_types::{Code, Error, OrgId, Reason, Result, Timestamp, TokenId, UserId};

/// Maximum number of members of an organization, including removed ones.
pub const MEMBERS_MAX: usize = 10_000;

/// Returns the error for an exceeded bound of an organization.
pub fn full(what: &str, most: impl Display) -> Error {
    Error::new(Code::ResourceExhausted, Reason::QuotaExceeded, format!("an organization has at most {most} {what}"))
}

/// Members of organizations, and the last uses of their tokens.
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

    /// Stores the time of the last use of a token.
    async fn note_use(&self, org: &OrgId, token: &TokenId, at: Timestamp) -> Result<()>;

    /// Returns the time of the last use of each token. None: never used.
    async fn last_uses(&self, org: &OrgId, tokens: &[TokenId]) -> Result<Vec<Option<Timestamp>>>;

    /// Removes the time of the last use of a revoked token.
    async fn forget_use(&self, org: &OrgId, token: &TokenId) -> Result<()>;
}
