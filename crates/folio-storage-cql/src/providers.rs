//! What organizations set of model providers: one row each, changed by what was read.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::models::ModelSettings;
use folio_types::{OrgId, Result};

use super::keyspace::Keyspace;
use super::session::Strength;
use folio_storage::ProviderStore;
use folio_storage::value::{decode, encode};

pub(crate) struct Providers(pub(crate) Arc<Keyspace>);

#[async_trait]
impl ProviderStore for Providers {
    async fn settings(&self, org: &OrgId) -> Result<Option<ModelSettings>> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let found = tables.model_settings.get(cql, org.as_str(), Strength::Quorum).await?;
        found.map(|bytes| decode(&bytes)).transpose()
    }

    async fn change(&self, org: &OrgId, new: ModelSettings) -> Result<bool> {
        let Keyspace { cql, tables, .. } = &*self.0;
        let (table, org, value) = (&tables.model_settings, org.as_str(), encode(&new)?);
        let there = table.get(cql, org, Strength::Serial).await?;
        let version =
            there.as_ref().map(|bytes| decode::<ModelSettings>(bytes)).transpose()?.map_or(0, |there| there.version);
        if version + 1 != new.version {
            return Ok(false);
        }
        match there {
            Some(old) => table.replace(cql, org, old, value).await,
            None => Ok(table.insert(cql, org, value.clone()).await? == value),
        }
    }
}
