//! Conversions of limits.

use folio_resources::OwnQuotas;
use folio_resources::quota::{AbandonedCalls, Quotas};
use folio_types::{Error, Result};

use crate::{fields, v1};

same_variants!(AbandonedCalls = v1::AbandonedCalls of "abandoned_calls": Abort, Drain);

impl From<OwnQuotas> for v1::OrganizationLimits {
    fn from(own: OwnQuotas) -> Self {
        Self {
            requests_per_second: own.requests_per_second,
            concurrent_turns: own.concurrent_turns,
            concurrent_model_calls: own.concurrent_model_calls,
            documents: own.documents,
            storage_bytes: own.storage_bytes,
            abandoned_calls: own.abandoned_calls.map(|handling| v1::AbandonedCalls::from(handling).into()),
        }
    }
}

impl TryFrom<v1::OrganizationLimits> for OwnQuotas {
    type Error = Error;

    fn try_from(limits: v1::OrganizationLimits) -> Result<Self> {
        let abandoned_calls = limits.abandoned_calls.map(|number| {
            let handling: v1::AbandonedCalls = fields::choice("own.abandoned_calls", number)?;
            handling.try_into()
        });
        Ok(Self {
            requests_per_second: limits.requests_per_second,
            concurrent_turns: limits.concurrent_turns,
            concurrent_model_calls: limits.concurrent_model_calls,
            documents: limits.documents,
            storage_bytes: limits.storage_bytes,
            abandoned_calls: abandoned_calls.transpose()?,
        })
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
            abandoned_calls: quotas.abandoned_calls.map(|handling| v1::AbandonedCalls::from(handling).into()),
        }
    }
}
