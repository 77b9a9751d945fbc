//! Faults of [`AccessStore`].

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use folio_storage::{AccessStore, MemberChange};
use folio_types::access::Organization;
use folio_types::{OrgId, Result};

use crate::layer::AccessLayer;

#[derive(Default)]
pub(super) struct FirstOrganizationReplaced(Mutex<Option<Organization>>);

#[async_trait]
impl AccessLayer for FirstOrganizationReplaced {
    async fn create_organization(&self, below: &dyn AccessStore, organization: Organization) -> Result<Organization> {
        let created = below.create_organization(organization).await?;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(created.clone());
        Ok(created)
    }

    async fn first_organization(&self, below: &dyn AccessStore) -> Result<Option<Organization>> {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match newest {
            Some(newest) => Ok(Some(newest)),
            None => below.first_organization().await,
        }
    }
}

#[derive(Default)]
pub(super) struct MemberOverwritten;

#[async_trait]
impl AccessLayer for MemberOverwritten {
    async fn change_member(&self, below: &dyn AccessStore, org: &OrgId, change: MemberChange) -> Result<bool> {
        if below.change_member(org, change.clone()).await? {
            return Ok(true);
        }
        let old = below.member(org, &change.new.user).await?;
        below.change_member(org, MemberChange { old, new: change.new, beside: None }).await
    }
}
