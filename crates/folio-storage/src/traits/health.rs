//! Whether the stores work, and what they are asked.

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

    /// What the server behind the store was asked since this process started; none where the store is in the process.
    fn traffic(&self) -> Option<Traffic> {
        None
    }
}

/// What a server was asked: for figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// Which server, in a word: `cql`, `redis`.
    pub server: &'static str,
    /// How many calls were sent, by kind. A batch is one call; what the driver repeats is not counted again.
    pub calls: Vec<(&'static str, u64)>,
    /// Calls that the server did not serve: it was not reached, or did not answer in time.
    pub failed: u64,
    /// Calls that were not sent, because the server is sick or too many were under way.
    pub refused: u64,
    /// Whether calls are held back now.
    pub held_back: bool,
}
