//! Organizations and tokens.

use async_trait::async_trait;
use folio_types::access::Organization;
use folio_types::token::{TokenId, TokenRecord};
use folio_types::{OrgId, Result};

/// Organizations and tokens.
#[async_trait]
pub trait AccessStore: Send + Sync {
    /// Makes an organization unless one of that id is there; gives the one that is there then.
    async fn create_organization(&self, organization: Organization) -> Result<Organization>;

    /// The organization, or none.
    async fn organization(&self, id: &OrgId) -> Result<Option<Organization>>;

    /// The first organization of this installation, or none: set up at the first start.
    async fn first_organization(&self) -> Result<Option<Organization>>;

    /// Stores a token.
    async fn create_token(&self, token: TokenRecord) -> Result<()>;

    /// The token's record, or none. The only read that is not below an organization: it is how one is found.
    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>>;
}
