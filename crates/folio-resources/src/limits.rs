//! Quotas of one organization, in addition to its credit.

use folio_types::quota::{DOCUMENTS_MAX, QUOTA_MAX, Quotas, STORAGE_BYTES_MAX};
use folio_types::{Error, Result};
use serde::{Deserialize, Serialize};

/// Quotas that a platform administrator set for one organization. None: the default of the installation.
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
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the effective quotas; `all` contains the defaults.
    pub fn over(&self, all: Quotas) -> Quotas {
        Quotas {
            requests_per_second: self.requests_per_second.unwrap_or(all.requests_per_second),
            concurrent_turns: self.concurrent_turns.unwrap_or(all.concurrent_turns),
            concurrent_model_calls: self.concurrent_model_calls.unwrap_or(all.concurrent_model_calls),
            documents: self.documents.unwrap_or(all.documents),
            storage_bytes: self.storage_bytes.unwrap_or(all.storage_bytes),
        }
    }

    /// Validates the quotas against their bounds. `field` precedes their names in errors.
    ///
    /// # Errors
    /// `INVALID_FIELD` if a quota is too large.
    pub fn check(&self, field: &str) -> Result<()> {
        let Self { requests_per_second, concurrent_turns, concurrent_model_calls, documents, storage_bytes } = *self;
        for (name, value, most) in [
            ("requests_per_second", requests_per_second.map(u64::from), QUOTA_MAX),
            ("concurrent_turns", concurrent_turns.map(u64::from), QUOTA_MAX),
            ("concurrent_model_calls", concurrent_model_calls.map(u64::from), QUOTA_MAX),
            ("documents", documents.map(u64::from), DOCUMENTS_MAX),
            ("storage_bytes", storage_bytes, STORAGE_BYTES_MAX),
        ] {
            if value.is_some_and(|value| value > most) {
                return Err(Error::invalid_field(format!("{field}.{name}"), format!("must be at most {most}")));
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
        let counts = Quotas { requests_per_second: 0, concurrent_model_calls: 3, ..all };
        assert_eq!((own.over(all), OwnQuotas::default().over(all)), (counts, all));
        assert_eq!(serde_json::to_string(&own).unwrap(), r#"{"requests_per_second":0,"concurrent_model_calls":3}"#);
        let bad = OwnQuotas { concurrent_turns: Some(1_000_001), ..own };
        assert_eq!(bad.check("limits").unwrap_err().violations[0].field, "limits.concurrent_turns");
        let bad = OwnQuotas { storage_bytes: Some(STORAGE_BYTES_MAX + 1), ..own };
        assert_eq!(bad.check("limits").unwrap_err().violations[0].field, "limits.storage_bytes");
        assert!(own.check("limits").is_ok());
    }
}
