//! Health checks recover the writer after a failure, then write a probe.

use std::sync::Arc;

use async_trait::async_trait;
use folio_types::Result;

use super::engine::Engine;
use super::keys::{self, Space};
use super::value::Count;
use folio_storage::StoreHealth;

pub(crate) struct Health(pub(crate) Arc<Engine>);

#[async_trait]
impl StoreHealth for Health {
    async fn check(&self) -> Result<()> {
        self.0.recover().await?;
        self.0.write(|transaction| transaction.put(Space::System, keys::probe(), &Count(0))).await
    }
}
