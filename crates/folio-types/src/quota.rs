//! Quotas of an organization, apart from credit.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Reason};
use crate::settings::{InvalidSettings, Problems};

/// Maximum of a quota of requests, turns or model calls.
// proto: OrganizationLimits "The maximum is {} unless"
pub const QUOTA_MAX: u64 = 1_000_000;
/// Maximum quota of documents.
// proto: OrganizationLimits.documents "at most {}."
pub const DOCUMENTS_MAX: u64 = 1_000_000_000;
/// Maximum quota of bytes: one petabyte.
// proto: OrganizationLimits.storage_bytes "at most {}."
pub const STORAGE_BYTES_MAX: u64 = 1_000_000_000_000_000;

/// Quotas of an organization. 0: unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// API calls per second at all gateways together. The burst size is the same number.
    pub requests_per_second: u32,
    /// Running turns at all nodes together. A turn that waits for approval does not run.
    pub concurrent_turns: u32,
    /// Concurrent model calls of all processes together.
    pub concurrent_model_calls: u32,
    pub documents: u32,
    /// Stored bytes of document files.
    pub storage_bytes: u64,
}

impl Quotas {
    /// Error: every quota that is out of bounds.
    pub fn check(&self) -> std::result::Result<(), InvalidSettings> {
        let mut problems = Problems::of("limits");
        let Self { requests_per_second, concurrent_turns, concurrent_model_calls, documents, storage_bytes } = *self;
        for (path, value, limit) in [
            ("requests_per_second", requests_per_second.into(), QUOTA_MAX),
            ("concurrent_turns", concurrent_turns.into(), QUOTA_MAX),
            ("concurrent_model_calls", concurrent_model_calls.into(), QUOTA_MAX),
            ("documents", documents.into(), DOCUMENTS_MAX),
            ("storage_bytes", storage_bytes, STORAGE_BYTES_MAX),
        ] {
            problems.number(path, value, 0, limit);
        }
        problems.into_result()
    }
}

/// Returns the error of an exceeded quota. Its details contain the name and the value of the quota.
pub fn exceeded(quota: &'static str, limit: u64, retry_after: Duration) -> Error {
    let message = format!("the organization's quota of {limit} {} is exhausted", quota.replace('_', " "));
    Error::exhausted(Reason::QuotaExceeded, message)
        .detail("quota", quota)
        .detail("limit", limit)
        .retry_after(retry_after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_out_of_bounds_is_refused_with_its_name() {
        let bad = Quotas { concurrent_turns: 1_000_001, ..Quotas::default() };
        assert!(bad.check().unwrap_err().to_string().contains("limits.concurrent_turns"));
        assert!(Quotas { storage_bytes: STORAGE_BYTES_MAX, ..Quotas::default() }.check().is_ok());
    }
}
