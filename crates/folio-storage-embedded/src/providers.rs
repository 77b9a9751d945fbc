//! What organizations set of model providers.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::models::ModelSettings;
use folio_types::{OrgId, Result};

use super::engine::Engine;
use super::keys::{self, Space};
use super::reads::Reads as _;
use folio_storage::ProviderStore;

pub(super) struct Providers(pub(super) Arc<Engine>);

#[async_trait]
impl ProviderStore for Providers {
    async fn settings(&self, org: &OrgId) -> Result<Option<ModelSettings>> {
        self.0.read(|view| view.read(Space::Records, &keys::model_settings(org)))
    }

    async fn change(&self, org: &OrgId, new: ModelSettings) -> Result<bool> {
        let key = keys::model_settings(org);
        self.0
            .write(move |transaction| {
                let there: Option<ModelSettings> = transaction.read(Space::Records, &key)?;
                let version = there.map_or(0, |there| there.version);
                if version + 1 != new.version {
                    return Ok(false);
                }
                transaction.put(Space::Records, key, &new)?;
                Ok(true)
            })
            .await
    }
}
