//! Quotas of an organization, apart from credit.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Reason, Result};
use crate::settings::{InvalidSettings, Problems};

/// Maximum of a quota.
const MOST: u64 = 1_000_000;
/// Maximum quota of documents.
const MOST_DOCUMENTS: u64 = 1_000_000_000;
/// Maximum quota of bytes: one petabyte.
const MOST_BYTES: u64 = 1_000_000_000_000_000;

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
    /// Stored documents.
    pub documents: u32,
    /// Stored bytes of document files.
    pub storage_bytes: u64,
}

impl Quotas {
    /// Validates every quota.
    ///
    /// # Errors
    /// Every quota out of bounds.
    pub fn check(&self) -> std::result::Result<(), InvalidSettings> {
        let mut problems = Problems::of("limits");
        let Self { requests_per_second, concurrent_turns, concurrent_model_calls, documents, storage_bytes } = *self;
        for (path, value, most) in [
            ("requests_per_second", requests_per_second.into(), MOST),
            ("concurrent_turns", concurrent_turns.into(), MOST),
            ("concurrent_model_calls", concurrent_model_calls.into(), MOST),
            ("documents", documents.into(), MOST_DOCUMENTS),
            ("storage_bytes", storage_bytes, MOST_BYTES),
        ] {
            problems.number(path, value, 0, most);
        }
        problems.verdict()
    }
}

/// Quotas that the platform administrator set for one organization. None: the default of the installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OwnQuotas {
    /// See [`Quotas::requests_per_second`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
    /// See [`Quotas::concurrent_turns`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent_turns: Option<u32>,
    /// See [`Quotas::concurrent_model_calls`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrent_model_calls: Option<u32>,
    /// See [`Quotas::documents`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<u32>,
    /// See [`Quotas::storage_bytes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_bytes: Option<u64>,
}

impl OwnQuotas {
    /// Returns true if no quota is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the effective quotas, with `all` as defaults.
    pub fn over(&self, all: Quotas) -> Quotas {
        Quotas {
            requests_per_second: self.requests_per_second.unwrap_or(all.requests_per_second),
            concurrent_turns: self.concurrent_turns.unwrap_or(all.concurrent_turns),
            concurrent_model_calls: self.concurrent_model_calls.unwrap_or(all.concurrent_model_calls),
            documents: self.documents.unwrap_or(all.documents),
            storage_bytes: self.storage_bytes.unwrap_or(all.storage_bytes),
        }
    }

    /// Validates the quotas.
    ///
    /// # Errors
    /// `INVALID_FIELD`.
    pub fn check(&self, field: &str) -> Result<()> {
        let Self { requests_per_second, concurrent_turns, concurrent_model_calls, documents, storage_bytes } = *self;
        for (name, value, most) in [
            ("requests_per_second", requests_per_second.map(u64::from), MOST),
            ("concurrent_turns", concurrent_turns.map(u64::from), MOST),
            ("concurrent_model_calls", concurrent_model_calls.map(u64::from), MOST),
            ("documents", documents.map(u64::from), MOST_DOCUMENTS),
            ("storage_bytes", storage_bytes, MOST_BYTES),
        ] {
            if value.is_some_and(|value| value > most) {
                return Err(Error::invalid_field(format!("{field}.{name}"), format!("is more than {most}")));
            }
        }
        Ok(())
    }
}

/// Returns the error of an exceeded quota. Its details contain the name and the value of the quota.
pub fn exceeded(quota: &'static str, most: u64, retry_after: Duration) -> Error {
    let message = format!("the organization's quota of {most} {} is exhausted", quota.replace('_', " "));
    Error::exhausted(Reason::QuotaExceeded, message)
        .detail("quota", quota)
        .detail("limit", most)
        .retry_after(retry_after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_an_organization_override_the_defaults() {
        let all = Quotas { requests_per_second: 10, concurrent_turns: 5, documents: 8, ..Quotas::default() };
        let own = OwnQuotas { requests_per_second: Some(0), concurrent_model_calls: Some(3), ..OwnQuotas::default() };
        let counts = Quotas { requests_per_second: 0, concurrent_model_calls: 3, ..all };
        assert_eq!((own.over(all), OwnQuotas::default().over(all)), (counts, all));
        assert_eq!(serde_json::to_string(&own).unwrap(), r#"{"requests_per_second":0,"concurrent_model_calls":3}"#);
        let bad = OwnQuotas { concurrent_turns: Some(1_000_001), ..own };
        assert_eq!(bad.check("limits").unwrap_err().violations[0].field, "limits.concurrent_turns");
        let bad = OwnQuotas { storage_bytes: Some(MOST_BYTES + 1), ..own };
        assert_eq!(bad.check("limits").unwrap_err().violations[0].field, "limits.storage_bytes");
        let bad = Quotas { concurrent_turns: 1_000_001, ..all };
        assert!(bad.check().unwrap_err().to_string().contains("limits.concurrent_turns"));
        assert!(Quotas { storage_bytes: MOST_BYTES, ..all }.check().is_ok());
    }
}
