//! Health checks and call counters of the stores.

use async_trait::async_trait;
use folio_types::{Environment, Result, Timestamp};

#[async_trait]
pub trait StoreHealth: Send + Sync {
    /// Makes a small write without a visible effect, as durably as the writes of resources and journals. The caller
    /// repeats the check every few seconds, also after failures. A store that can recover by itself tries to recover
    /// here.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if the store works but is too busy. Other errors: the store does not work.
    async fn check(&self) -> Result<()>;

    /// Returns the clock of each server minus that of `environment`, in nanoseconds. Servers that do not answer within a
    /// second are omitted. Empty: the store is in the process.
    async fn clock_offsets(&self, _environment: &dyn Environment) -> Vec<i64> {
        Vec::new()
    }

    /// Counts the calls to the store's server since this process started. None: the store is in the process.
    fn call_counters(&self) -> Option<CallCounters> {
        None
    }
}

/// Maximum duration of a read of a server's clock, in nanoseconds. The error of an offset is at most half of it.
const ROUND_TRIP_MAX: i128 = 1_000_000_000;

/// Returns the clock of a server minus that of `environment`, in nanoseconds. `read`: reads the server's clock. None: the
/// server did not answer within [`ROUND_TRIP_MAX`].
pub async fn clock_offset(environment: &dyn Environment, read: impl Future<Output = Result<Timestamp>>) -> Option<i64> {
    let before = environment.now().as_nanosecond();
    let server = read.await.ok()?.as_nanosecond();
    let after = environment.now().as_nanosecond();
    let is_exact = after - before <= ROUND_TRIP_MAX;
    i64::try_from(server - before.midpoint(after)).ok().filter(|_| is_exact)
}

/// Counters of the calls to a store's server, for metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCounters {
    /// `cql`, `redis` or `qdrant`.
    pub server: &'static str,
    /// Calls that were sent, by kind. A batch is one call; the driver's retries are not counted.
    pub calls: Vec<(&'static str, u64)>,
    /// Calls that failed because the server was unreachable or timed out.
    pub failed: u64,
    /// Calls that were not sent because the circuit breaker was open or too many calls were in flight.
    pub rejected: u64,
    /// True if the circuit breaker is open, or no server is connected.
    pub is_open: bool,
}
