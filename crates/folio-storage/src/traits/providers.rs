//! What organizations set of model providers.

use async_trait::async_trait;
use folio_types::models::ModelSettings;
use folio_types::{OrgId, Result};

/// Settings of models, one value for each organization. Keys in them are encrypted before they come here.
#[async_trait]
pub trait ProviderStore: Send + Sync {
    /// What an organization has set; none: nothing ever.
    async fn settings(&self, org: &OrgId) -> Result<Option<ModelSettings>>;

    /// Stores settings, where what is there has the version before `new.version` (nothing has the version 0). False: it has
    /// another one by now.
    async fn change(&self, org: &OrgId, new: ModelSettings) -> Result<bool>;
}
