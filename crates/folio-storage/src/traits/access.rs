//! Organizations and tokens.

use async_trait::async_trait;
use folio_types::access::{Member, Organization};
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

/// A change of a member, with what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberChange {
    /// The member as it was read; none: there was none.
    pub old: Option<Member>,
    /// The member from now on, of the same id.
    pub new: Member,
    /// Another member as it was read, who has to be the same still: the admin who stays where one goes.
    pub beside: Option<Member>,
}

impl MemberChange {
    /// A member who was not there.
    pub fn added(new: Member) -> Self {
        Self { old: None, new, beside: None }
    }
}

/// Organizations, members and tokens.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// Makes an organization unless one of that id is there; gives the one that is there then.
    async fn create_organization(&self, organization: Organization) -> Result<Organization>;

    /// The organization, or none.
    async fn organization(&self, id: &OrgId) -> Result<Option<Organization>>;

    /// The first organization of this installation, or none: set up at the first start.
    async fn first_organization(&self) -> Result<Option<Organization>>;

    /// The organizations, by id, after this one; at most `limit`.
    async fn organizations(&self, after: Option<&OrgId>, limit: usize) -> Result<Vec<Organization>>;

    /// Changes what an organization is called and set to, where it has the version before `new.version`. False: it has
    /// another one by now, or is not there.
    async fn change_organization(&self, new: Organization) -> Result<bool>;

    /// A member, removed or not, or none.
    async fn member(&self, org: &OrgId, user: &UserId) -> Result<Option<Member>>;

    /// All members, removed ones too, by id.
    async fn members(&self, org: &OrgId) -> Result<Vec<Member>>;

    /// Makes or changes a member, where what was read still stands. False: something else does by now. Errors: `QUOTA_EXCEEDED`
    /// over [`MEMBERS_MAX`].
    async fn change_member(&self, org: &OrgId, change: MemberChange) -> Result<bool>;

    /// Stores a token. Errors: `NOT_FOUND` where its organization is not there, `QUOTA_EXCEEDED` over [`TOKENS_MAX`].
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
