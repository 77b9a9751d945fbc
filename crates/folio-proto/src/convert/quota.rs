//! Conversions of limits.

use folio_resources::OwnQuotas;
use folio_resources::quota::Quotas;

use crate::v1;

impl From<OwnQuotas> for v1::OrganizationLimits {
    fn from(own: OwnQuotas) -> Self {
        let OwnQuotas { requests_per_second, concurrent_turns, concurrent_model_calls, documents, storage_bytes } = own;
        Self { requests_per_second, concurrent_turns, concurrent_model_calls, documents, storage_bytes }
    }
}

impl From<v1::OrganizationLimits> for OwnQuotas {
    fn from(own: v1::OrganizationLimits) -> Self {
        let v1::OrganizationLimits {
            requests_per_second,
            concurrent_turns,
            concurrent_model_calls,
            documents,
            storage_bytes,
        } = own;
        Self { requests_per_second, concurrent_turns, concurrent_model_calls, documents, storage_bytes }
    }
}

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
