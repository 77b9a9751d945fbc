//! Whether the stores work.

use async_trait::async_trait;
use folio_types::Result;

/// Whether the stores take writes now.
#[async_trait]
pub trait StoreHealth: Send + Sync {
    /// Makes a small write as every deciding write is made (durable, as many replicas as those), which changes nothing that
    /// anybody sees. It is asked every few seconds, also after it failed: where a store can get over a fault by itself,
    /// this is where it tries to.
    ///
    /// Errors: that of the write; `OVERLOADED` says that the store works, and has too much to do.
    async fn check(&self) -> Result<()>;
}
