//! PolicyService.

use std::time::Duration;

use folio_proto::v1;
use folio_tools::Registry;
use folio_tools::policy::{self, There};
use folio_types::access::Organization;
use folio_types::{Error, Principal, Result, limits};
use serde_json::json;
use tonic::{Request, Response, Status};
use v1::policy_service_server::PolicyService;

use super::{Api, answer_caller};
use crate::audit::Made;

#[tonic::async_trait]
impl PolicyService for Api {
    async fn get_policy(
        &self,
        request: Request<v1::GetPolicyRequest>,
    ) -> Result<Response<v1::GetPolicyResponse>, Status> {
        answer_caller(request, async |caller, request| {
            let organization = self.asked_organization(&caller, &request.organization_id).await?;
            Ok(v1::GetPolicyResponse { policy: Some((&organization).into()), version: organization.version })
        })
        .await
    }

    async fn set_policy(
        &self,
        request: Request<v1::SetPolicyRequest>,
    ) -> Result<Response<v1::SetPolicyResponse>, Status> {
        self.changes(request, async |api, caller, request| api.new_policy(caller.principal, request).await).await
    }
}

impl Api {
    async fn new_policy(&self, principal: Principal, request: v1::SetPolicyRequest) -> Result<v1::SetPolicyResponse> {
        let asked = request.policy.unwrap_or_default();
        let rules = asked.read()?;
        let registry = Registry::standard()?;
        let tools: Vec<&str> = registry.profiles().flat_map(|profile| profile.specs()).map(|spec| spec.name).collect();
        let profiles: Vec<&str> = registry.profiles().map(|profile| profile.profile.name).collect();
        policy::check(&rules, There { tools: &tools, profiles: &profiles })?;
        let ttl = Duration::from_secs(asked.approval_ttl_seconds.into());
        if ttl > limits::APPROVAL_TTL_MAX {
            return Err(Error::invalid_field("policy.approval_ttl_seconds", "is more than 30 days"));
        }
        let approval_ttl_seconds = Some(asked.approval_ttl_seconds).filter(|seconds| *seconds > 0);
        let change = |there: Organization| Organization { policy: rules.clone(), approval_ttl_seconds, ..there };
        let arguments = json!({
            "rules": rules,
            "approval_ttl_seconds": asked.approval_ttl_seconds,
            "expected_version": request.expected_version,
        });
        let asked = ("PolicyService.SetPolicy", "", arguments);
        let changed = self.change_organization(&principal.org, request.expected_version, change);
        let there = self.recorded(&principal, asked, changed, |there| Made::here("organization", &there.id)).await?;
        Ok(v1::SetPolicyResponse { policy: Some((&there).into()), version: there.version })
    }
}
