//! Health checks and call counters of the stores.

use async_trait::async_trait;
use folio_types::Result;

#[async_trait]
pub trait StoreHealth: Send + Sync {
    /// Makes a small write without a visible effect, as durably as the writes of resources and journals. The caller
    /// repeats the check every few seconds, also after failures. A store that can recover by itself tries to recover
    /// here.
    ///
    /// # Errors
    /// `OVERLOADED` if the store works but is too busy. Other errors: the store does not work.
    async fn check(&self) -> Result<()>;

    /// Counts the calls to the store's server since this process started. None: the store is in the process.
    fn call_counters(&self) -> Option<CallCounters> {
        None
    }
}

/// Counters of the calls to a store's server, for metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCounters {
    /// `cql` or `redis`.
    pub server: &'static str,
    /// Calls that were sent, by kind. A batch is one call; the driver's retries are not counted.
    pub calls: Vec<(&'static str, u64)>,
    /// Calls that failed because the server was unreachable or timed out.
    pub failed: u64,
    /// Calls that were not sent because the circuit breaker was open or too many calls were in flight.
    pub rejected: u64,
    /// True if the circuit breaker is open.
    pub is_open: bool,
}
