//! Conversions of limits.

use folio_resources::OwnQuotas;
use folio_resources::quota::Quotas;

use crate::v1;

same_fields!(
    OwnQuotas = v1::OrganizationLimits {
        requests_per_second,
        concurrent_turns,
        concurrent_model_calls,
        documents,
        storage_bytes
    }
);

impl From<Quotas> for v1::OrganizationLimits {
    fn from(quotas: Quotas) -> Self {
        Self {
            requests_per_second: Some(quotas.requests_per_second),
            concurrent_turns: Some(quotas.concurrent_turns),
            concurrent_model_calls: Some(quotas.concurrent_model_calls),
            documents: Some(quotas.documents),
            storage_bytes: Some(quotas.storage_bytes),
        }
    }
}
