//! What an organization may have, besides its credit.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Reason, Result};
use crate::settings::{InvalidSettings, Problems};

/// The most that a number may be.
const MOST: u64 = 1_000_000;
/// The most that a number of documents may be.
const MOST_DOCUMENTS: u64 = 1_000_000_000;
/// The most that a number of bytes may be: a petabyte.
const MOST_BYTES: u64 = 1_000_000_000_000_000;

/// What an organization may have; 0: any number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// Calls of the API in a second, at all gateways together; as many at once after a rest.
    pub requests_per_second: u32,
    /// Turns that run, at all nodes together. One that waits for approval does not run.
    pub concurrent_turns: u32,
    /// Model calls under way, in all processes together.
    pub concurrent_model_calls: u32,
    /// Documents that are there.
    pub documents: u32,
    /// Bytes of the files of documents that are there.
    pub storage_bytes: u64,
}

impl Quotas {
    /// Checks every setting.
    ///
    /// # Errors
    /// All that is out of bounds, with the bounds.
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

/// What the platform's administrator set for one organization; what is none is as for all others.
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
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What counts for the organization, where this counts for all others.
    pub fn over(&self, all: Quotas) -> Quotas {
        Quotas {
            requests_per_second: self.requests_per_second.unwrap_or(all.requests_per_second),
            concurrent_turns: self.concurrent_turns.unwrap_or(all.concurrent_turns),
            concurrent_model_calls: self.concurrent_model_calls.unwrap_or(all.concurrent_model_calls),
            documents: self.documents.unwrap_or(all.documents),
            storage_bytes: self.storage_bytes.unwrap_or(all.storage_bytes),
        }
    }

    /// Checks what is to be set.
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

/// The error over a quota: its name, and how much it allows, are in the details.
pub fn exceeded(quota: &'static str, most: u64, retry_after: Duration) -> Error {
    let message = format!("the organization has as much as it may: {most} {}", quota.replace('_', " "));
    Error::exhausted(Reason::QuotaExceeded, message)
        .detail("quota", quota)
        .detail("limit", most)
        .retry_after(retry_after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_organization_has_set_counts_before_what_all_have() {
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
