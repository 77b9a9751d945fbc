//! Operations on the limits of an organization besides its credit.

use folio_resources::quota::Quotas;
use folio_resources::{Organization, OrganizationChange, OwnQuotas};
use folio_types::access::Scope;
use folio_types::{Etag, OrgId, Result, Role};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::audit::AuditRecord;
use crate::context::Context;
use crate::declaration::{Declaration, service};
use crate::operation::{Operation, outcome_as_json};
use crate::organizations::{change_organization, visible_organization};

service! {
    "LimitService", Some(Scope::Administration) =>
    GetLimits, SetLimits
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Limits {
    /// The organization's own limits, completed by the default quotas of the installation.
    pub effective: Quotas,
    pub own: OwnQuotas,
    /// The version of the organization.
    pub version: u64,
}

impl Limits {
    fn of(organization: &Organization, context: &Context) -> Self {
        let own = organization.quotas;
        Self { effective: own.with_defaults(context.default_quotas()), own, version: organization.version }
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct GetLimits {
    /// The organization. None: the caller's. Another one is visible to the platform's administrator only.
    pub organization_id: Option<OrgId>,
}

impl Operation for GetLimits {
    const DECLARATION: Declaration = SERVICE.read("GetLimits").role(Role::Admin);
    type Output = Limits;

    async fn run(self, context: &Context) -> Result<Limits> {
        let organization = visible_organization(context, self.organization_id).await?;
        Ok(Limits::of(&organization, context))
    }
}

/// Replaces the limits of an organization.
#[derive(Debug, Clone, Serialize)]
pub struct SetLimits {
    /// The organization. None: the caller's.
    pub organization_id: Option<OrgId>,
    pub own: OwnQuotas,
    /// The version of the organization that the change is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for SetLimits {
    const DECLARATION: Declaration = SERVICE.administer("SetLimits").platform().changes_platform();
    type Output = Limits;
    outcome_as_json!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<Limits>> {
        self.own.check("own")?;
        let id = visible_organization(context, self.organization_id.clone()).await?.id;
        let arguments = json!({ "organization_id": id, "own": self.own, "etag": self.etag });
        Ok(AuditRecord::new(arguments).target("organization", &id).other_org(id))
    }

    async fn run(self, context: &Context) -> Result<Limits> {
        let id = self.organization_id.unwrap_or_else(|| context.principal().org.clone());
        let changed = change_organization(context, &id, self.etag, OrganizationChange::SetQuotas(self.own));
        Ok(Limits::of(&changed.await?, context))
    }
}
