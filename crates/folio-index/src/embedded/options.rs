//! Settings of the embedded index.

use std::time::Duration;

use folio_types::{Error, Result};

use super::tenant::WRITER_BYTES;

const MIB: u64 = 1024 * 1024;

/// Settings of the embedded index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddedOptions {
    /// Maximum bytes of vectors in memory, of all organizations together. Passages whose vectors do not fit are skipped
    /// by the dense part of a search, and the answer names their number. Default: 512 MiB.
    pub memory_bytes: u64,
    /// Maximum bytes of all indexes on the disk, half of it for one organization. An index counts twice, because a merge writes a
    /// segment before it removes the merged ones. Default: 64 GiB.
    pub disk_bytes: u64,
    /// Number of passages of an organization from which its vectors are kept in memory as 8-bit integers. Default:
    /// 100,000.
    pub quantize_above: u64,
    /// Maximum open indexes without a search or write in progress. Default: 64.
    pub readers_max: usize,
    /// Maximum open writers. A writer uses about 20 MiB and six threads. Default: 4.
    pub writers_max: usize,
    /// Maximum searches that run at the same time. Default: 4.
    pub searches_max: usize,
    /// Maximum writes that run at the same time, at most `writers_max`. Default: 1.
    pub writes_max: usize,
    /// Maximum searches, and maximum writes, that wait. Default: 256.
    pub waiting_max: usize,
    /// Maximum time that a search or a write waits. Default: 10 s.
    pub wait_max: Duration,
    /// Time after the last write of an organization after which its writer is closed, and deleted passages are removed
    /// from the disk. Default: 30 s.
    pub writer_idle: Duration,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self {
            memory_bytes: 512 * MIB,
            disk_bytes: 64 * 1024 * MIB,
            quantize_above: 100_000,
            readers_max: 64,
            writers_max: 4,
            searches_max: 4,
            writes_max: 1,
            waiting_max: 256,
            wait_max: Duration::from_secs(10),
            writer_idle: Duration::from_secs(30),
        }
    }
}

impl EmbeddedOptions {
    /// Returns the maximum bytes of memory of all open writers.
    pub fn writer_bytes(&self) -> u64 {
        u64::try_from(self.writers_max.saturating_mul(WRITER_BYTES)).unwrap_or(u64::MAX)
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// `INVALID_FIELD` with the name of the setting.
    pub(crate) fn validate(&self) -> Result<()> {
        for (name, value) in [
            ("readers_max", self.readers_max),
            ("writers_max", self.writers_max),
            ("searches_max", self.searches_max),
            ("writes_max", self.writes_max),
        ] {
            if value == 0 {
                return Err(Error::invalid_field(name, "is 0; expected at least 1"));
            }
        }
        if self.writes_max > self.writers_max {
            let message =
                format!("is {}; expected at most writers_max, which is {}", self.writes_max, self.writers_max);
            return Err(Error::invalid_field("writes_max", message));
        }
        Ok(())
    }
}
