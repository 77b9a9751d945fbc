//! The default quotas of organizations.

use folio_resources::quota::{OwnQuotas, Quotas};
use folio_types::settings::InvalidSettings;
use serde::{Deserialize, Serialize};

/// Quotas of each organization without quotas of its own. 0: unlimited. None: [`Quotas::OF_CLUSTERS`] on the stores of a
/// cluster, otherwise unlimited.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitOptions {
    requests_per_second: Option<u32>,
    concurrent_turns: Option<u32>,
    concurrent_model_calls: Option<u32>,
    documents: Option<u32>,
    storage_bytes: Option<u64>,
}

impl LimitOptions {
    /// Returns the settings without None. `is_cluster`: the installation uses the stores of a cluster.
    #[must_use]
    pub(crate) fn resolved(&self, is_cluster: bool) -> Self {
        let Quotas { requests_per_second, concurrent_turns, concurrent_model_calls, documents, storage_bytes, .. } =
            self.quotas_or(if is_cluster { Quotas::OF_CLUSTERS } else { Quotas::default() });
        Self {
            requests_per_second: Some(requests_per_second),
            concurrent_turns: Some(concurrent_turns),
            concurrent_model_calls: Some(concurrent_model_calls),
            documents: Some(documents),
            storage_bytes: Some(storage_bytes),
        }
    }

    /// Returns the quotas. None: unlimited.
    pub(crate) fn quotas(&self) -> Quotas {
        self.quotas_or(Quotas::default())
    }

    fn quotas_or(&self, defaults: Quotas) -> Quotas {
        let Self { requests_per_second, concurrent_turns, concurrent_model_calls, documents, storage_bytes } = *self;
        let abandoned_calls = None;
        OwnQuotas {
            requests_per_second,
            concurrent_turns,
            concurrent_model_calls,
            documents,
            storage_bytes,
            abandoned_calls,
        }
        .with_defaults(defaults)
    }

    pub(crate) fn check(&self) -> Result<(), InvalidSettings> {
        self.quotas().check()
    }
}
