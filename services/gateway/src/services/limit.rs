//! LimitService.

use folio_operations::Call;
use folio_operations::limits::{GetLimits, Limits, SetLimits};
use folio_proto::{fields, v1};
use folio_types::Etag;
use tonic::Request;
use v1::limit_service_server::LimitService;

use super::{Api, Reply};

#[tonic::async_trait]
impl LimitService for Api {
    async fn get_limits(&self, request: Request<v1::GetLimitsRequest>) -> Reply<v1::GetLimitsResponse> {
        let call = |request: v1::GetLimitsRequest| {
            let organization_id = fields::optional_id("organization_id", &request.organization_id)?;
            Ok(Call::new(GetLimits { organization_id }))
        };
        let response = |Limits { effective, own, version }: Limits| v1::GetLimitsResponse {
            limits: Some(effective.into()),
            own: Some(own.into()),
            etag: Etag::new(version).to_string(),
        };
        self.call(request, call, response).await
    }

    async fn set_limits(&self, request: Request<v1::SetLimitsRequest>) -> Reply<v1::SetLimitsResponse> {
        let call = |request: v1::SetLimitsRequest| {
            let operation = SetLimits {
                organization_id: fields::optional_id("organization_id", &request.organization_id)?,
                own: request.own.unwrap_or_default().into(),
                etag: fields::etag("etag", &request.etag)?,
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |Limits { effective, own, version }: Limits| v1::SetLimitsResponse {
            limits: Some(effective.into()),
            own: Some(own.into()),
            etag: Etag::new(version).to_string(),
        };
        self.call(request, call, response).await
    }
}
