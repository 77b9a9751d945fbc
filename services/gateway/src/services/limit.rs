//! Serves `LimitService`.

use folio_operations::limits::{GetLimits, Limits, SetLimits};
use folio_proto::{fields, v1};
use folio_types::Etag;
use v1::limit_service_server::LimitService;

use super::Api;
use super::handler::{change, read};

#[tonic::async_trait]
impl LimitService for Api {
    read!(
        get_limits,
        GetLimitsRequest,
        GetLimitsResponse,
        |request| GetLimits { organization_id: fields::optional_id("organization_id", &request.organization_id)? },
        |Limits { effective, own, version }: Limits| v1::GetLimitsResponse {
            limits: Some(effective.into()),
            own: Some(own.into()),
            etag: Etag::new(version).to_string(),
        }
    );

    change!(
        set_limits,
        SetLimitsRequest,
        SetLimitsResponse,
        |request| SetLimits {
            organization_id: fields::optional_id("organization_id", &request.organization_id)?,
            own: request.own.unwrap_or_default().try_into()?,
            etag: fields::etag("etag", &request.etag)?,
        },
        |Limits { effective, own, version }: Limits| v1::SetLimitsResponse {
            limits: Some(effective.into()),
            own: Some(own.into()),
            etag: Etag::new(version).to_string(),
        }
    );
}
