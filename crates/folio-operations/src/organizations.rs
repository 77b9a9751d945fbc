//! Operations on organizations.

use folio_types::access::{Member, Organization};
use folio_types::page::Order;
use folio_types::token::{Token, TokenRecord};
use folio_types::{Code, Error, Etag, OrgId, Principal, Reason, Result, Role, Secret, UserId, limits};
use serde::Serialize;
use serde_json::{Value, json};

use crate::audit::AuditRecord;
use crate::caller::Caller;
use crate::context::Context;
use crate::declaration::{Declaration, Service};
use crate::filter;
use crate::list::{ListPage, ListRequest, Listing, Scan, SortKeys};
use crate::members::{self, change_member, new_member};
use crate::operation::{Operation, outcome_as_json};
use crate::tokens::revoke_tokens;

use folio_types::access::Scope;

pub(crate) static SERVICE: Service = Service { name: "OrganizationService", scope: Some(Scope::Administration) };

pub(crate) const DECLARATIONS: &[Declaration] = &[
    CreateOrganization::DECLARATION,
    ListOrganizations::DECLARATION,
    GetOrganization::DECLARATION,
    UpdateOrganization::DECLARATION,
    DeleteOrganization::DECLARATION,
    members::AddMember::DECLARATION,
    members::ListMembers::DECLARATION,
    members::UpdateMember::DECLARATION,
    members::RemoveMember::DECLARATION,
];

/// Maximum number of attempts of a change that meets version conflicts.
const ATTEMPTS: u32 = 5;

/// Organizations of one read of a list.
const READ: usize = 500;

/// Creates an organization with its first admin and the admin's token.
#[derive(Debug, Clone, Serialize)]
pub struct CreateOrganization {
    /// The display name: 1 to 200 characters without surrounding blanks.
    pub name: String,
    /// The display name of the first admin, by the same rule.
    pub admin_name: String,
}

/// A created organization.
#[derive(Debug, Clone)]
pub struct CreatedOrganization {
    /// The organization.
    pub organization: Organization,
    /// The first admin.
    pub admin: Member,
    /// The admin's token. None if the request was repeated: the secret is not stored.
    pub admin_token: Option<Secret>,
}

impl CreateOrganization {
    fn ids(context: &Context) -> (OrgId, UserId) {
        let parts = context.request.id_parts();
        (OrgId::derive(&parts), UserId::derive(&parts))
    }
}

impl Operation for CreateOrganization {
    const DECLARATION: Declaration = SERVICE.administer("CreateOrganization").platform();
    type Output = CreatedOrganization;

    /// Records the ids only: the record belongs to the caller's organization and stays when the new one is deleted.
    fn to_outcome(created: &CreatedOrganization) -> Result<Value> {
        Ok(json!({ "organization_id": created.organization.id, "user_id": created.admin.user }))
    }

    async fn replay(&self, context: &Context, _: Value) -> Result<CreatedOrganization> {
        let (id, user) = Self::ids(context);
        let organization = organization(context, &id).await?;
        let admin =
            context.stores().access.member(&id, &user).await?.ok_or_else(|| Error::not_found("member", &user))?;
        Ok(CreatedOrganization { organization, admin, admin_token: None })
    }

    async fn audit(&self, context: &Context) -> Result<AuditRecord<CreatedOrganization>> {
        let (id, user) = Self::ids(context);
        // Without names: the log of the caller's organization stays when this one is deleted.
        let record = AuditRecord::new(json!({ "organization_id": id, "user_id": user }));
        Ok(record.target("organization", &id).founds(id))
    }

    /// Creates organization, admin and token in this order. A repetition after a crash creates what is missing.
    async fn run(self, context: &Context) -> Result<CreatedOrganization> {
        folio_types::fields::check_name("organization.name", &self.name)?;
        folio_types::fields::check_name("admin_name", &self.admin_name)?;
        let (id, user) = Self::ids(context);
        let (access, environment) = (&context.stores().access, context.environment());
        let now = environment.now();
        let organization = access.create_organization(Organization::new(id.clone(), &self.name, now)).await?;
        let admin = change_member(context, &id, &user, |stored| {
            Ok(stored.unwrap_or_else(|| new_member(context, &user, &self.admin_name, Role::Admin)))
        })
        .await?;
        let token = Token::generate_as(id.as_str(), environment);
        let holder = Principal { org: id, user, role: Role::Admin };
        let created = access.create_token(TokenRecord::new(&token, holder, "first token", now)).await;
        let admin_token = match created {
            Ok(()) => Some(Secret::new(&token.reveal())),
            Err(error) if error.reason == Reason::NameTaken => None,
            Err(error) => return Err(error),
        };
        Ok(CreatedOrganization { organization, admin, admin_token })
    }
}

/// Lists all organizations by id. Filter: `name:` a part of the name.
#[derive(Debug, Clone, Serialize)]
pub struct ListOrganizations {
    /// The page; the only order is `organization_id`.
    pub list: ListRequest,
}

impl Operation for ListOrganizations {
    const DECLARATION: Declaration = SERVICE.read("ListOrganizations").platform();
    type Output = ListPage<Organization>;

    async fn run(self, context: &Context) -> Result<ListPage<Organization>> {
        let mut name = None;
        for condition in filter::parse(&self.list.filter)? {
            match condition.field.as_str() {
                "name" => filter::once(&mut name, &condition, condition.search()?.to_lowercase())?,
                _ => return Err(filter::unknown(&condition, "name")),
            }
        }
        let keys = SortKeys::Ascending("organization_id");
        let listing = Listing::new(&self.list, &["organizations"], keys, Order::Oldest, limits::PAGE_SIZE_MAX)?;
        let matches =
            |one: &Organization| name.as_ref().is_none_or(|part| one.name.to_lowercase().contains(part.as_str()));
        listing
            .scan(READ, async |scan: Scan<OrgId>| {
                let read = context.stores().access.organizations(scan.after.as_ref(), scan.limit).await?;
                Ok(read.into_iter().map(|one| (one.id.clone(), Some(one).filter(&matches))).collect())
            })
            .await
    }
}

/// Returns an organization.
#[derive(Debug, Clone, Serialize)]
pub struct GetOrganization {
    /// The organization. None: the caller's. Another one is visible to the platform's administrator only.
    pub organization_id: Option<OrgId>,
}

impl Operation for GetOrganization {
    const DECLARATION: Declaration = SERVICE.read("GetOrganization");
    type Output = Organization;

    async fn run(self, context: &Context) -> Result<Organization> {
        visible_organization(context, self.organization_id).await
    }
}

/// Updates the caller's organization. A field that is None keeps its value.
#[derive(Debug, Clone, Serialize)]
pub struct UpdateOrganization {
    /// The new display name: 1 to 200 characters without surrounding blanks.
    pub name: Option<String>,
    /// Days without activity after which a thread is deleted. 0: threads are kept.
    pub thread_retention_days: Option<u32>,
    /// The version that the update is based on. None: any version.
    pub etag: Option<Etag>,
}

impl Operation for UpdateOrganization {
    const DECLARATION: Declaration = SERVICE.administer("UpdateOrganization");
    type Output = Organization;
    outcome_as_json!();

    async fn audit(&self, context: &Context) -> Result<AuditRecord<Organization>> {
        AuditRecord::of_input(serde_json::to_value(self))
            .map(|record| record.target("organization", &context.principal().org))
    }

    async fn run(self, context: &Context) -> Result<Organization> {
        if let Some(name) = &self.name {
            folio_types::fields::check_name("organization.name", name)?;
        }
        let most = limits::THREAD_RETENTION_DAYS_MAX;
        if self.thread_retention_days.is_some_and(|days| days > most) {
            let problem = format!("must be at most {most}");
            return Err(Error::invalid_field("organization.thread_retention_days", problem));
        }
        let org = &context.principal().org;
        change_organization(context, org, self.etag, |stored| Organization {
            name: self.name.clone().unwrap_or(stored.name),
            thread_retention_days: match self.thread_retention_days {
                Some(days) => Some(days).filter(|days| *days > 0),
                None => stored.thread_retention_days,
            },
            ..stored
        })
        .await
    }
}

/// Deletes an organization permanently.
#[derive(Debug, Clone, Serialize)]
pub struct DeleteOrganization {
    /// The organization: neither the caller's own nor the first one of the installation.
    pub organization_id: OrgId,
    /// The exact name, as a confirmation.
    pub name: String,
}

impl Operation for DeleteOrganization {
    const DECLARATION: Declaration = SERVICE.administer("DeleteOrganization").platform();
    type Output = ();
    outcome_as_json!();

    async fn audit(&self, _: &Context) -> Result<AuditRecord<()>> {
        let id = &self.organization_id;
        // The log of the organization is erased with it.
        Ok(AuditRecord::new(json!({ "organization_id": id })).target("organization", id))
    }

    /// Writes the tombstone, then revokes the tokens. A repetition after a crash revokes the remaining ones; the sweep
    /// erases the rest.
    async fn run(self, context: &Context) -> Result<()> {
        let (stores, id) = (context.stores(), &self.organization_id);
        if let Some(stored) = stores.access.organization(id).await? {
            if stored.name != self.name {
                return Err(Error::invalid_field("name", "is not the name of the organization"));
            }
            let first = stores.access.first_organization().await?;
            if *id == context.principal().org || first.is_some_and(|first| first.id == *id) {
                let message = "neither the caller's organization nor the first one of the installation can be deleted";
                return Err(Error::precondition(Reason::InUse, message));
            }
        }
        if !stores.erasure.delete(id, context.environment().now()).await? {
            return Err(Error::not_found("organization", id));
        }
        context.clean_up().sweep_soon();
        revoke_tokens(context, id, |_| true).await
    }
}

/// Returns an organization that the caller may see: its own (also for None), or any for the platform's administrator.
pub(crate) async fn visible_organization(context: &Context, id: Option<OrgId>) -> Result<Organization> {
    let caller: &Caller = &context.caller;
    let own = &caller.principal.org;
    let id = id.unwrap_or_else(|| own.clone());
    if id != *own && !caller.is_platform_admin() {
        return Err(Error::not_found("organization", &id));
    }
    organization(context, &id).await
}

async fn organization(context: &Context, id: &OrgId) -> Result<Organization> {
    let found = context.stores().access.organization(id).await?;
    found.ok_or_else(|| Error::not_found("organization", id))
}

/// Changes an organization under the version that was read, and returns it. `etag` is the version that the request is
/// based on. None: any version.
pub(crate) async fn change_organization(
    context: &Context,
    id: &OrgId,
    etag: Option<Etag>,
    change: impl Fn(Organization) -> Organization + Send,
) -> Result<Organization> {
    let conflict = || {
        let message = "the organization was changed meanwhile; read it again";
        Error::new(Code::Aborted, Reason::VersionConflict, message)
    };
    for _ in 0..ATTEMPTS {
        let stored = organization(context, id).await?;
        if etag.is_some_and(|etag| etag.version() != stored.version) {
            return Err(conflict());
        }
        let version = stored.version.saturating_add(1);
        let new = Organization { version, ..change(stored) };
        if context.stores().access.change_organization(new.clone()).await? {
            return Ok(new);
        }
    }
    Err(conflict())
}
