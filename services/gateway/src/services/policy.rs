//! PolicyService.

use folio_operations::Call;
use folio_operations::policies::{GetPolicy, SetPolicy};
use folio_proto::{fields, v1};
use folio_resources::Organization;
use folio_types::Etag;
use tonic::Request;
use v1::policy_service_server::PolicyService;

use super::{Api, Reply};

#[tonic::async_trait]
impl PolicyService for Api {
    async fn get_policy(&self, request: Request<v1::GetPolicyRequest>) -> Reply<v1::GetPolicyResponse> {
        let call = |request: v1::GetPolicyRequest| {
            let organization_id = fields::optional_id("organization_id", &request.organization_id)?;
            Ok(Call::new(GetPolicy { organization_id }))
        };
        let response = |found: Organization| v1::GetPolicyResponse {
            policy: Some((&found).into()),
            etag: Etag::new(found.version).to_string(),
        };
        self.call(request, call, response).await
    }

    async fn set_policy(&self, request: Request<v1::SetPolicyRequest>) -> Reply<v1::SetPolicyResponse> {
        let call = |request: v1::SetPolicyRequest| {
            let policy = request.policy.unwrap_or_default();
            let operation = SetPolicy {
                policy: policy.read()?,
                approval_ttl_seconds: policy.approval_ttl_seconds,
                etag: fields::etag("etag", &request.etag)?,
            };
            Ok(Call::under(fields::request_id(&request.request_id)?, operation))
        };
        let response = |changed: Organization| v1::SetPolicyResponse {
            policy: Some((&changed).into()),
            etag: Etag::new(changed.version).to_string(),
        };
        self.call(request, call, response).await
    }
}
