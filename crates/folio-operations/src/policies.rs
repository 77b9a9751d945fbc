//! Operations on the policy of an organization.

use folio_resources::policy::Policy;
use folio_resources::{Organization, OrganizationChange};
use folio_tools::policy::{self, PolicyNames};
use folio_types::access::Scope;
use folio_types::{Etag, OrgId, Result};
use serde::Serialize;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::conversations::registry;
use crate::declaration::{Declaration, service};
use crate::operation::{Operation, outcome_as_json};
use crate::organizations::{change_organization, visible_organization};
use crate::policy_test::TestPolicy;

service! {
    "PolicyService", Some(Scope::Administration) =>
    GetPolicy, SetPolicy, TestPolicy
}

/// Checks the rules against the tools and the profiles.
pub(crate) fn check(policy: &Policy) -> Result<()> {
    let registry = registry()?;
    let tools: Vec<&str> = registry.profiles().flat_map(|profile| profile.specs()).map(|spec| spec.name).collect();
    let profiles: Vec<&str> = registry.profiles().map(|profile| profile.profile.name).collect();
    policy::check(policy, PolicyNames { tools: &tools, profiles: &profiles })
}

/// Returns the organization with its policy.
#[derive(Debug, Clone, Serialize)]
pub struct GetPolicy {
    /// The organization. None: the caller's. Another one is visible to the platform's administrator only.
    pub organization_id: Option<OrgId>,
}

impl Operation for GetPolicy {
    const DECLARATION: Declaration = SERVICE.read("GetPolicy");
    type Output = Organization;

    async fn run(self, context: &Context) -> Result<Organization> {
        visible_organization(context, self.organization_id).await
    }
}

/// Replaces the policy of the caller's organization.
#[derive(Debug, Clone, Serialize)]
pub struct SetPolicy {
    #[serde(rename = "rules")]
    pub policy: Policy,
    /// Seconds that a turn waits for decisions. 0: the setting of the installation.
    pub approval_ttl_seconds: u32,
    /// The version of the organization that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl SetPolicy {
    fn change(&self) -> OrganizationChange {
        let approval_ttl_seconds = Some(self.approval_ttl_seconds).filter(|seconds| *seconds > 0);
        OrganizationChange::SetPolicy { policy: self.policy.clone(), approval_ttl_seconds }
    }
}

impl Operation for SetPolicy {
    const DECLARATION: Declaration = SERVICE.administer("SetPolicy").changes_platform();
    type Output = Organization;
    outcome_as_json!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<Organization>> {
        check(&self.policy)?;
        self.change().check()?;
        let record = AuditRecord::of_input(self)?;
        Ok(record.target("organization", &context.principal().org))
    }

    async fn run(self, context: &Context) -> Result<Organization> {
        change_organization(context, &context.principal().org, self.etag, self.change()).await
    }
}
