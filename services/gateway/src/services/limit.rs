//! LimitService.

use folio_proto::v1;
use folio_types::Result;
use folio_types::access::Organization;
use folio_types::quota::OwnQuotas;
use serde_json::json;
use tonic::{Request, Response, Status};
use v1::limit_service_server::LimitService;

use super::{Api, answer_caller};
use crate::audit::Made;
use folio_operations::Caller;

#[tonic::async_trait]
impl LimitService for Api {
    async fn get_limits(
        &self,
        request: Request<v1::GetLimitsRequest>,
    ) -> Result<Response<v1::GetLimitsResponse>, Status> {
        answer_caller(request, async |caller, request| {
            let organization = self.asked_organization(&caller, &request.organization_id).await?;
            let (limits, own) = self.limits_of(&organization);
            Ok(v1::GetLimitsResponse { limits, own, version: organization.version })
        })
        .await
    }

    async fn set_limits(
        &self,
        request: Request<v1::SetLimitsRequest>,
    ) -> Result<Response<v1::SetLimitsResponse>, Status> {
        self.changes(request, async |api, caller, request| api.set(caller, request).await).await
    }
}

impl Api {
    async fn set(&self, caller: Caller, request: v1::SetLimitsRequest) -> Result<v1::SetLimitsResponse> {
        let quotas = OwnQuotas::from(request.own.unwrap_or_default());
        quotas.check("own")?;
        let organization = self.asked_organization(&caller, &request.organization_id).await?;
        let change = |there: Organization| Organization { quotas, ..there };
        let (id, expected) = (organization.id, request.expected_version);
        let arguments = json!({ "organization_id": id, "own": quotas, "expected_version": expected });
        let asked = ("LimitService.SetLimits", "", arguments);
        let made = |_: &Organization| Made::here("organization", &id);
        let changed = self.change_organization(&id, expected, change);
        let organization = self.recorded_of(&id, &caller.principal, asked, changed, made).await?;
        let (limits, own) = self.limits_of(&organization);
        Ok(v1::SetLimitsResponse { limits, own, version: organization.version })
    }

    /// What counts for an organization, and what is set for it.
    fn limits_of(
        &self,
        organization: &Organization,
    ) -> (Option<v1::OrganizationLimits>, Option<v1::OrganizationLimits>) {
        let (own, counts) = (organization.quotas, organization.quotas.over(self.gateway.quotas));
        (Some(counts.into()), Some(own.into()))
    }
}
