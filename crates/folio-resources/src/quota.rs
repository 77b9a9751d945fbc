//! Quotas of an organization, apart from credit.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use folio_types::settings::{InvalidSettings, Problems};
use folio_types::{Error, Reason, Result};

/// Maximum of a quota of requests, turns or model calls.
// proto: OrganizationLimits "The maximum is {} unless"
pub const QUOTA_MAX: u64 = 1_000_000;
/// Maximum quota of documents.
// proto: OrganizationLimits.documents "at most {}."
pub const DOCUMENTS_MAX: u64 = 1_000_000_000;
/// Maximum quota of bytes: one petabyte.
// proto: OrganizationLimits.storage_bytes "at most {}."
pub const STORAGE_BYTES_MAX: u64 = 1_000_000_000_000_000;

/// Names and maxima of the quotas, in the order of their fields.
const BOUNDS: [(&str, u64); 5] = [
    ("requests_per_second", QUOTA_MAX),
    ("concurrent_turns", QUOTA_MAX),
    ("concurrent_model_calls", QUOTA_MAX),
    ("documents", DOCUMENTS_MAX),
    ("storage_bytes", STORAGE_BYTES_MAX),
];

/// Handling of calls whose turn or caller was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AbandonedCalls {
    /// Aborts the call. The charge covers the prompt and the received part of the response, as counted by Folio.
    #[default]
    Abort,
    /// Reads the response to its end. The charge covers the usage that the provider reports.
    Drain,
}

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
    /// Stored bytes of document files, of their texts, and of the journals of threads.
    pub storage_bytes: u64,
    /// None: the handling of the installation, `credit.abandoned_calls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abandoned_calls: Option<AbandonedCalls>,
}

impl Quotas {
    /// Default quotas of an organization on the stores of a cluster, which organizations share: one of them can exhaust
    /// neither the stores nor the model endpoints. Calls have no rate, because each gateway bounds the concurrent calls
    /// of an organization.
    pub const OF_CLUSTERS: Self = Self {
        requests_per_second: 0,
        concurrent_turns: 32,
        concurrent_model_calls: 64,
        documents: 20_000,
        storage_bytes: 50 * 1024 * 1024 * 1024,
        abandoned_calls: None,
    };

    /// Error: every quota that is out of bounds.
    pub fn check(&self) -> std::result::Result<(), InvalidSettings> {
        let mut problems = Problems::of("limits");
        let Self { requests_per_second, concurrent_turns, concurrent_model_calls, documents, storage_bytes, .. } =
            *self;
        let counts = [requests_per_second, concurrent_turns, concurrent_model_calls, documents].map(u64::from);
        for ((name, max), value) in BOUNDS.into_iter().zip(counts.into_iter().chain([storage_bytes])) {
            problems.number(name, value, 0, max);
        }
        problems.check(self.abandoned_calls.is_none(), "abandoned_calls", "is the setting credit.abandoned_calls");
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

/// Quotas that a platform administrator set for one organization, as in [`Quotas`]. None: the default of the
/// installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OwnQuotas {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent_turns: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent_model_calls: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub abandoned_calls: Option<AbandonedCalls>,
}

impl OwnQuotas {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the effective quotas.
    pub fn with_defaults(&self, defaults: Quotas) -> Quotas {
        Quotas {
            requests_per_second: self.requests_per_second.unwrap_or(defaults.requests_per_second),
            concurrent_turns: self.concurrent_turns.unwrap_or(defaults.concurrent_turns),
            concurrent_model_calls: self.concurrent_model_calls.unwrap_or(defaults.concurrent_model_calls),
            documents: self.documents.unwrap_or(defaults.documents),
            storage_bytes: self.storage_bytes.unwrap_or(defaults.storage_bytes),
            abandoned_calls: self.abandoned_calls.or(defaults.abandoned_calls),
        }
    }

    /// Validates the quotas against their bounds. `field` precedes their names in errors.
    ///
    /// # Errors
    /// `INVALID_FIELD` if a quota is too large.
    pub fn check(&self, field: &str) -> Result<()> {
        let Self { requests_per_second, concurrent_turns, concurrent_model_calls, documents, storage_bytes, .. } =
            *self;
        let counts = [requests_per_second, concurrent_turns, concurrent_model_calls, documents];
        let values = counts.map(|count| count.map(u64::from)).into_iter().chain([storage_bytes]);
        for ((name, max), value) in BOUNDS.into_iter().zip(values) {
            if value.is_some_and(|value| value > max) {
                return Err(Error::invalid_field(format!("{field}.{name}"), format!("must be at most {max}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quotas_of_an_organization_replace_the_defaults() {
        let all = Quotas { requests_per_second: 10, concurrent_turns: 5, documents: 8, ..Quotas::default() };
        let own = OwnQuotas { requests_per_second: Some(0), concurrent_model_calls: Some(3), ..OwnQuotas::default() };
        let effective = Quotas { requests_per_second: 0, concurrent_model_calls: 3, ..all };
        assert_eq!((own.with_defaults(all), OwnQuotas::default().with_defaults(all)), (effective, all));
        assert_eq!(serde_json::to_string(&own).unwrap(), r#"{"requests_per_second":0,"concurrent_model_calls":3}"#);
        let bad = OwnQuotas { concurrent_turns: Some(1_000_001), ..own };
        assert_eq!(bad.check("limits").unwrap_err().violations[0].field, "limits.concurrent_turns");
        let bad = OwnQuotas { storage_bytes: Some(STORAGE_BYTES_MAX + 1), ..own };
        assert_eq!(bad.check("limits").unwrap_err().violations[0].field, "limits.storage_bytes");
        assert!(OwnQuotas { storage_bytes: Some(STORAGE_BYTES_MAX), ..own }.check("limits").is_ok());
    }

    #[test]
    fn a_quota_out_of_bounds_is_refused_with_its_name() {
        let bad = Quotas { concurrent_turns: 1_000_001, ..Quotas::default() };
        assert!(bad.check().unwrap_err().to_string().contains("limits.concurrent_turns"));
        let bad = Quotas { abandoned_calls: Some(AbandonedCalls::Drain), ..Quotas::default() };
        assert!(bad.check().unwrap_err().to_string().contains("credit.abandoned_calls"));
        assert!(Quotas { storage_bytes: STORAGE_BYTES_MAX, ..Quotas::default() }.check().is_ok());
    }
}
