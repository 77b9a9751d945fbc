//! Organizations and tokens.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::access::Organization;
use folio_types::token::{TokenId, TokenRecord};
use folio_types::{Code, Error, OrgId, Reason, Result};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::Reads;
use super::value::First;
use crate::planted::Bug;
use crate::traits::AccessStore;

fn organization(reads: &impl Reads, id: &OrgId) -> Result<Option<Organization>> {
    reads.read(Space::Records, &keys::organization(id))
}

pub(crate) struct Access(pub(crate) Arc<Engine>);

#[async_trait]
impl AccessStore for Access {
    async fn create_organization(&self, new: Organization) -> Result<Organization> {
        self.0
            .write(move |transaction| {
                if let Some(there) = organization(transaction, &new.id)? {
                    return Ok(there);
                }
                let first = keys::first_organization();
                let overwritten = transaction.plan().has(Bug::FirstOrganizationOverwritten);
                if overwritten || !transaction.contains(Space::System, &first)? {
                    transaction.put(Space::System, first, &First { org: new.id.clone() })?;
                }
                transaction.put(Space::Records, keys::organization(&new.id), &new)?;
                Ok(new)
            })
            .await
    }

    async fn organization(&self, id: &OrgId) -> Result<Option<Organization>> {
        self.0.read(|view| organization(view, id))
    }

    async fn first_organization(&self) -> Result<Option<Organization>> {
        self.0.read(|view| match view.read::<First>(Space::System, &keys::first_organization())? {
            Some(first) => organization(view, &first.org),
            None => Ok(None),
        })
    }

    async fn create_token(&self, token: TokenRecord) -> Result<()> {
        self.0
            .write(move |transaction| {
                if organization(transaction, &token.org)?.is_none() {
                    return Err(Error::not_found("organization", &token.org));
                }
                let key = keys::token(&token.id);
                match transaction.read::<TokenRecord>(Space::System, &key)? {
                    Some(there) if there == token => Ok(()),
                    Some(_) => {
                        Err(Error::new(Code::AlreadyExists, Reason::NameTaken, "there is a token of this id already"))
                    }
                    None => transaction.put(Space::System, key, &token),
                }
            })
            .await
    }

    async fn token(&self, id: &TokenId) -> Result<Option<TokenRecord>> {
        self.0.read(|view| view.read(Space::System, &keys::token(id)))
    }
}
