//! A store of tokens for tests.

use async_trait::async_trait;
use folio_storage::{AccessStore, MemberChange};
use folio_types::access::{Member, Organization};
use folio_types::token::{ListedToken, TokenId, TokenRecord};
use folio_types::{OrgId, Result, Timestamp, UserId};

/// An empty store.
#[derive(Default)]
pub(crate) struct Empty {
    /// The token whose read never returns. None: every read finds nothing.
    pub(crate) silent: Option<TokenId>,
}

#[async_trait]
impl AccessStore for Empty {
    async fn create_organization(&self, organization: Organization) -> Result<Organization> {
        Ok(organization)
    }
    async fn organization(&self, _: &OrgId) -> Result<Option<Organization>> {
        Ok(None)
    }
    async fn first_organization(&self) -> Result<Option<Organization>> {
        Ok(None)
    }
    async fn organizations(&self, _: Option<&OrgId>, _: usize) -> Result<Vec<Organization>> {
        Ok(Vec::new())
    }
    async fn change_organization(&self, _: Organization) -> Result<bool> {
        Ok(false)
    }
    async fn member(&self, _: &OrgId, _: &UserId) -> Result<Option<Member>> {
        Ok(None)
    }
    async fn members(&self, _: &OrgId) -> Result<Vec<Member>> {
        Ok(Vec::new())
    }
    async fn change_member(&self, _: &OrgId, _: MemberChange) -> Result<bool> {
        Ok(false)
    }
    async fn tokens(&self, _: &OrgId) -> Result<Vec<ListedToken>> {
        Ok(Vec::new())
    }
    async fn revoke_token(&self, _: &OrgId, _: &TokenId, _: Timestamp) -> Result<Option<TokenRecord>> {
        Ok(None)
    }
    async fn note_use(&self, _: &OrgId, _: &TokenId, _: Timestamp) -> Result<()> {
        Ok(())
    }
    async fn create_token(&self, _: TokenRecord) -> Result<()> {
        Ok(())
    }
    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>> {
        if self.silent.as_ref() == Some(id) {
            std::future::pending::<()>().await;
        }
        Ok(None)
    }
}
