//! Serves `PolicyService`.

use folio_operations::policies::{GetPolicy, SetPolicy};
use folio_proto::{fields, v1};
use folio_resources::Organization;
use folio_types::Etag;
use v1::policy_service_server::PolicyService;

use super::Api;
use super::handler::{change, read};

#[tonic::async_trait]
impl PolicyService for Api {
    read!(
        get_policy,
        GetPolicyRequest,
        GetPolicyResponse,
        |request| GetPolicy { organization_id: fields::optional_id("organization_id", &request.organization_id)? },
        |found: Organization| v1::GetPolicyResponse {
            policy: Some((&found).into()),
            etag: Etag::new(found.version).to_string(),
        }
    );

    change!(
        set_policy,
        SetPolicyRequest,
        SetPolicyResponse,
        |request| {
            let policy = request.policy.unwrap_or_default();
            SetPolicy {
                policy: policy.read()?,
                approval_ttl_seconds: policy.approval_ttl_seconds,
                etag: fields::etag("etag", &request.etag)?,
            }
        },
        |changed: Organization| v1::SetPolicyResponse {
            policy: Some((&changed).into()),
            etag: Etag::new(changed.version).to_string(),
        }
    );
}
