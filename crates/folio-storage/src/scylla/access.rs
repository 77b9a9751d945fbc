//! Organizations and tokens.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::access::Organization;
use folio_types::token::{TokenId, TokenRecord};
use folio_types::{Code, Error, OrgId, Reason, Result};

use super::keyspace::Keyspace;
use super::session::Strength;
use crate::planted::Bug;
use crate::traits::AccessStore;
use crate::value::{First, decode, encode};

/// The row of the organization that was made first.
const FIRST: &str = "first_organization";

pub(crate) struct Access(pub(crate) Arc<Keyspace>);

#[async_trait]
impl AccessStore for Access {
    async fn create_organization(&self, new: Organization) -> Result<Organization> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let stands = tables.access.organizations.insert(cql, new.id.as_str(), encode(&new)?).await?;
        // After the organization: who finds the first one finds it made. Whoever comes back after a crash comes by here.
        let first = encode(&First { org: new.id.clone() })?;
        if self.0.has(Bug::FirstOrganizationOverwritten) {
            tables.access.installation.overwrite(cql, FIRST, first.clone()).await?;
        }
        tables.access.installation.insert(cql, FIRST, first).await?;
        decode(&stands)
    }

    async fn organization(&self, id: &OrgId) -> Result<Option<Organization>> {
        let found = self.0.tables.access.organization(&self.0.cql, id).await?;
        found.map(|bytes| decode(&bytes)).transpose()
    }

    async fn first_organization(&self) -> Result<Option<Organization>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        match tables.access.installation.get(cql, FIRST, Strength::Quorum).await? {
            Some(bytes) => self.organization(&decode::<First>(&bytes)?.org).await,
            None => Ok(None),
        }
    }

    async fn create_token(&self, token: TokenRecord) -> Result<()> {
        let Keyspace { cql, tables, .. } = &*self.0;
        if self.organization(&token.org).await?.is_none() {
            return Err(Error::not_found("organization", &token.org));
        }
        let stands = tables.access.tokens.insert(cql, token.id.as_str(), encode(&token)?).await?;
        if decode::<TokenRecord>(&stands)? == token {
            return Ok(());
        }
        Err(Error::new(Code::AlreadyExists, Reason::NameTaken, "there is a token of this id already"))
    }

    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let found = tables.access.tokens.get(cql, id.as_str(), Strength::Quorum).await?;
        found.map(|bytes| decode(&bytes)).transpose()
    }
}
